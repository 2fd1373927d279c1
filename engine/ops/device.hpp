#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/ops/peaks.hpp"
#include "engine/tensor/dtype.hpp"

/// The interface of devices, which backends implement.
namespace keelson {

class Autotuner;

/// A place in the order of an instance's work (a CUDA event).
class Event {
 public:
  virtual ~Event() = default;
};

/// Does work in order: one CUDA stream, or some threads of a CPU. Work of different instances runs at the same time;
/// only wait_for() and Device::fence() order it. A device has a main instance. Device::make_instance() makes more. An
/// instance may be used by one host thread at a time.
class ExecutionInstance : public std::enable_shared_from_this<ExecutionInstance> {
 public:
  virtual ~ExecutionInstance() = default;  ///< returns when the work queued on this instance is done
  virtual int concurrency() const = 0;     ///< number of threads, or of work items that the device runs at once
  /// The place behind all work queued on this instance so far.
  virtual std::shared_ptr<Event> record() = 0;
  /// Work queued on this instance from now on waits for the work before `event`, which an instance of the same device
  /// has recorded. Does not block the host. Within Device::capture() the event must be of the same capture.
  virtual void wait_for(const Event& event) = 0;
  /// Work queued on this instance from now on waits for all work queued on `other` so far. Does not block the host.
  void wait_for(ExecutionInstance& other) { wait_for(*other.record()); }

 protected:
  /// The state before enter().
  struct Previous {
    ExecutionInstance* instance = nullptr;  ///< null: the main instance
    int threads = 0;                        ///< threads of OpenMP's parallel regions in this host thread; 0: not used
  };

 private:
  friend class InstanceScope;
  virtual Previous enter() = 0;  ///< makes this instance the current one of the calling host thread
  virtual void leave(const Previous& previous) = 0;
};

/// While a scope exists, work that its host thread queues goes to the scope's instance. Without a scope it goes to the
/// main instance. Scopes may be nested.
class InstanceScope {
 public:
  /// Makes the instance, which must outlive the scope, the current one of the calling host thread.
  explicit InstanceScope(ExecutionInstance& instance) : instance_(instance), previous_(instance.enter()) {}
  ~InstanceScope() { instance_.leave(previous_); }
  InstanceScope(const InstanceScope&) = delete;

 private:
  ExecutionInstance& instance_;
  const ExecutionInstance::Previous previous_;
};

/// Settings of an execution instance.
struct InstanceOptions {
  /// On a CPU: OpenMP threads of kernels and libraries; 0: as many as the main instance has. On a GPU: 0.
  int threads = 0;
};

/// A queue for copies, and for a library's own work, besides the device's execution instances. "The device" here is the
/// current instance of the calling host thread. Calls return at once unless stated otherwise. If the host shares the
/// device's memory, the work is done when a call returns.
class Queue {
 public:
  virtual ~Queue() = default;
  virtual void wait_for_device() = 0;  ///< work queued here from now on waits for all work queued on the device so far
  virtual void device_waits() = 0;     ///< work queued on the device from now on waits for all work queued here so far
  /// `src`: host memory from Device::allocate_host, which must not change until the copy has ended.
  virtual void copy_from_host(void* dst, const void* src, std::size_t bytes) = 0;
  /// `dst`: host memory from Device::allocate_host.
  virtual void copy_to_host(void* dst, const void* src, std::size_t bytes) = 0;
  virtual bool idle() = 0;     ///< whether all work queued here has ended
  virtual void wait() = 0;     ///< returns when all work queued here has ended
  virtual void* native() = 0;  ///< the vendor's handle (a cudaStream_t); null: none
};

/// Work on a device that was captured once and is launched as a whole (a CUDA graph).
class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;
  /// Starts the captured work, in order with the device's work.
  virtual void launch() = 0;
};

/// Memory of a device in bytes: its size, and the part that this process uses.
struct DeviceMemory {
  std::size_t total = 0;  ///< memory of the device; 0: unknown
  std::size_t available =
      0;                 ///< what allocate() can still give: free on the device and within the limit; 0 if total is 0
  std::size_t used = 0;  ///< memory from allocate() that is in use now
};

/// The energy that a device has used so far.
struct DeviceEnergy {
  std::optional<double> joules;  ///< since some fixed moment; empty: the device has no counter that can be read
  std::string source;  ///< what is counted, "the GPU's board (NVML)"; if joules is empty: why nothing is counted
};

/// The memory and the execution instances of one device, implemented by a backend. "Work" and its order here refer to
/// the current instance of the calling host thread.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string describe() const = 0;  ///< "OpenMP, 2 threads", "NVIDIA H200"
  /// An identifier of this device on its machine ("0000:1b:00.0", a GPU's PCI address); empty: it has none.
  virtual std::string bus_id() const { return ""; }

  // Capabilities; they are independent of each other.
  virtual bool shares_host_memory() const = 0;        ///< the CPU may read and write the device's memory directly
  virtual bool is_asynchronous() const = 0;           ///< calls queue work and return before it has ended
  virtual bool can_capture() const { return false; }  ///< capture() works
  /// Whether work of two instances may take less time at the same time than one after the other: kernels that do not
  /// fill the device. Threads of a CPU are all used by one instance.
  virtual bool can_overlap() const { return false; }
  virtual bool has_small_caches()
      const = 0;  ///< results of more than some MiB do not stay in the caches, so tiles are faster

  /// 64-byte aligned, zero-filled by the threads that will use it (first touch). Throws Error naming label and size
  /// when out of memory.
  virtual std::shared_ptr<void> allocate(std::size_t bytes, const std::string& label) = 0;
  /// Host memory for the fastest copies from and to the device (page-locked); 64-byte aligned, zero-filled.
  virtual std::shared_ptr<void> allocate_host(std::size_t bytes, const std::string& label) = 0;
  /// The present state of the memory.
  virtual DeviceMemory memory() const = 0;
  virtual void limit_memory(std::size_t bytes) = 0;  ///< allocate() gives at most this in total
  /// Copies in order with the work. `src` may be changed when the call returns; the copy may end later.
  virtual void copy_from_host(void* dst, const void* src, std::size_t bytes) = 0;
  virtual void copy_to_host(void* dst, const void* src, std::size_t bytes) = 0;  ///< has ended when the call returns
  virtual void copy(void* dst, const void* src, std::size_t bytes) = 0;          ///< copies within the device
  /// Sets memory to zero, in order with the work.
  virtual void zero(void* dst, std::size_t bytes) = 0;
  virtual void fence() = 0;  ///< returns when all work queued so far is done
  /// The instance of the innermost InstanceScope on this device, else the main instance.
  virtual ExecutionInstance& current_instance() = 0;
  /// Makes another instance. Throws InputError for more threads than the main instance has. The instance must end
  /// before the device.
  virtual std::shared_ptr<ExecutionInstance> make_instance(const InstanceOptions& options = {}) = 0;
  /// Makes a queue that is independent of all instances.
  virtual std::unique_ptr<Queue> make_queue() = 0;
  /// As make_queue(), but with priority over all other work of the device: for work for which other ranks wait.
  virtual std::unique_ptr<Queue> make_urgent_queue() { return make_queue(); }
  /// Calls `work`, which queues work on the current instance and does nothing else (no copy to or from the host, no
  /// allocation, no fence), and keeps the queued work instead of running it. Other instances may take part: each first
  /// waits for the current instance, and the current instance waits for their work at the end. Only if can_capture();
  /// throws Error if the work cannot be captured.
  virtual std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) { return (void)work, nullptr; }
  /// Whether run_together() makes fewer launches of kernels than the calls one by one.
  virtual bool merges_launches() const { return false; }
  /// Runs call(0), ... call(count - 1), which do not depend on each other, each a verb of a primitive that merges
  /// (Primitive::merges), in any order. A device to which a launch is costly launches kernels of one kind together.
  virtual void run_together(std::size_t count, const std::function<void(std::size_t)>& call) {
    for (std::size_t i = 0; i < count; ++i) call(i);
  }
  /// Calls work(first, last) for parts of [0, count) that begin at multiples of 4096: in any order, by the threads of
  /// the current instance, or on a GPU of the host, at the same time. Returns when all have ended. `work` throws
  /// nothing.
  virtual void for_parts_on_host(std::int64_t count,
                                 const std::function<void(std::int64_t first, std::int64_t last)>& work) {
    work(0, count);
  }
  virtual int vector_width() const = 0;  ///< floats in a vector register of this build's kernels
  /// The 16-bit type in which this device multiplies fastest; f32: no 16-bit type is faster.
  virtual DType preferred_half() const { return DType::f32; }
  /// Measures the device with all its threads. Takes about a second, and 256 MiB of memory per thread, at most 4 GiB.
  /// If another process uses the same device, both values are lower.
  virtual DevicePeaks measure_peaks() = 0;
  /// Times candidates on this device while plans are being made, and remembers the choices. Null: candidates are taken
  /// by rules of thumb, or backends choose for themselves.
  virtual Autotuner* autotuner() { return nullptr; }
  /// The device's own energy counter, as it is now. Processors are counted by the system, for all who use them.
  virtual DeviceEnergy energy() { return {std::nullopt, "the device has no energy counter of its own"}; }

  /// Lets a watchdog observe long waits for this device, whose work may wait for other ranks. After half a second, a
  /// wait by fence(), copy_to_host() or Queue::wait() in the calling host thread calls `late` repeatedly, with the
  /// seconds since the wait began. An exception of `late` ends the wait and passes through. The watch ends when the
  /// returned handle is destroyed.
  [[nodiscard]] std::shared_ptr<void> watch_waits(std::function<void(double seconds)> late);
  /// For implementations of devices and queues: calls `ended` until it returns true, and calls watchdogs. At first it
  /// calls without a pause, then it yields the core between two calls, and after 50 us it sleeps between two calls, for
  /// at most 100 us.
  void wait_until(const std::function<bool()>& ended);

 private:
  struct Watch {
    std::thread::id thread;
    std::function<void(double seconds)> late;
  };
  std::vector<std::weak_ptr<Watch>> watches_;
};

}  // namespace keelson
