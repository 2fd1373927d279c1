#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/ops/peaks.hpp"
#include "engine/tensor/dtype.hpp"

/// What a backend says of its device, and what the engine asks of it.
namespace keelson {

class Autotuner;

/// Does work in order: one CUDA stream, or some threads of a CPU. Work of different instances runs side by side: the
/// device orders it only where wait_for() or Device::fence() is called. A device has a main instance.
/// Device::make_instance() makes more. An instance may be used by one host thread at a time.
class ExecutionInstance : public std::enable_shared_from_this<ExecutionInstance> {
 public:
  virtual ~ExecutionInstance() = default;  ///< returns when the work queued here is done
  virtual int concurrency() const = 0;     ///< threads, or what the device runs at once
  /// Work queued here from now on waits for all work queued on `other` so far. Does not block the host.
  virtual void wait_for(ExecutionInstance& other) = 0;

 protected:
  /// What was current before.
  struct Previous {
    ExecutionInstance* instance = nullptr;  ///< null: the main one
    int threads = 0;                        ///< of OpenMP's parallel regions in this host thread; 0: does not matter
  };

 private:
  friend class InstanceScope;
  virtual Previous enter() = 0;  ///< becomes the current instance of the calling host thread
  virtual void leave(const Previous& previous) = 0;
};

/// As long as a scope lives, the work that its host thread queues goes to this instance. Without a scope it goes to the
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

/// A queue of copies, and of a library's own work, beside the device's execution instances. "The device" here is the
/// current instance of the calling host thread. Calls return at once where nothing else is said. Where the host shares
/// the device's memory, everything is done when a call returns.
class Queue {
 public:
  virtual ~Queue() = default;
  virtual void
  wait_for_device() = 0;            ///< what is queued here from now on waits for all work queued on the device so far
  virtual void device_waits() = 0;  ///< work queued on the device from now on waits for all that is queued here so far
  /// Host memory from Device::allocate_host, which stays as it is until the copy has ended.
  virtual void copy_from_host(void* dst, const void* src, std::size_t bytes) = 0;
  /// To host memory from Device::allocate_host.
  virtual void copy_to_host(void* dst, const void* src, std::size_t bytes) = 0;
  virtual bool idle() = 0;     ///< whether all that was queued here has ended
  virtual void wait() = 0;     ///< returns when it has
  virtual void* native() = 0;  ///< the vendor's handle (a cudaStream_t); null: none
};

/// Work on a device, recorded once and then started as a whole (a CUDA graph).
class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;
  /// Starts all of the recorded work, in order with the device's work.
  virtual void launch() = 0;
};

/// What a device has and what this process has taken of it, in bytes.
struct DeviceMemory {
  std::size_t total = 0;  ///< of the device; 0: unknown
  std::size_t available =
      0;                 ///< that allocate() can still give: free on the device and within the limit; 0 with total 0
  std::size_t used = 0;  ///< by allocate(), now
};

/// What a device has used so far.
struct DeviceEnergy {
  std::optional<double> joules;  ///< since some fixed moment; nothing: it has no counter that can be read
  std::string source;            ///< what is counted, "the GPU's board (NVML)"; without joules: why nothing is
};

/// The memory and the execution instances of one device, implemented by a backend. What is said here of work, and of
/// its order, is about the current instance of the calling host thread.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string describe() const = 0;  ///< "OpenMP, 2 threads", "NVIDIA H200"
  /// What tells this device from others of its machine ("0000:1b:00.0", a GPU's PCI address); empty: nothing does.
  virtual std::string bus_id() const { return ""; }

  // What it can do; nothing follows from one answer for another.
  virtual bool shares_host_memory() const = 0;        ///< the CPU may read and write its memory directly
  virtual bool is_asynchronous() const = 0;           ///< work is queued: calls return before it has ended
  virtual bool can_capture() const { return false; }  ///< capture() works
  virtual bool has_small_caches() const = 0;          ///< results above some MiB leave the caches: tiles pay

  /// 64-byte aligned, zero-filled by the threads that will use it (first touch). Throws Error naming label and size
  /// when out of memory.
  virtual std::shared_ptr<void> allocate(std::size_t bytes, const std::string& label) = 0;
  /// Of memory that the device copies from and to fastest (page-locked); 64-byte aligned, zero-filled.
  virtual std::shared_ptr<void> allocate_host(std::size_t bytes, const std::string& label) = 0;
  /// As it is now.
  virtual DeviceMemory memory() const = 0;
  virtual void limit_memory(std::size_t bytes) = 0;  ///< allocate() gives no more than this in all
  /// In order with the work; `src` may be changed when the call returns, the copy may end later.
  virtual void copy_from_host(void* dst, const void* src, std::size_t bytes) = 0;
  virtual void copy_to_host(void* dst, const void* src, std::size_t bytes) = 0;  ///< ended when the call returns
  virtual void copy(void* dst, const void* src, std::size_t bytes) = 0;          ///< within the device
  /// In order with the work.
  virtual void zero(void* dst, std::size_t bytes) = 0;
  virtual void fence() = 0;  ///< returns when all work queued so far is done
  /// The one of the innermost InstanceScope on this device, else the main one.
  virtual ExecutionInstance& current_instance() = 0;
  /// Another one. Throws InputError for threads that the main instance does not have. It must end before the device.
  virtual std::shared_ptr<ExecutionInstance> make_instance(const InstanceOptions& options = {}) = 0;
  /// A queue of its own, beside all instances.
  virtual std::unique_ptr<Queue> make_queue() = 0;
  /// As make_queue(). What is ready there goes before all other work of the device: for what other ranks wait for.
  virtual std::unique_ptr<Queue> make_urgent_queue() { return make_queue(); }
  /// Calls `work`, which queues work on the current instance and does nothing else (no copy to or from the host, no
  /// allocation, no fence), and keeps what it queued instead of running it. Only where can_capture(); throws Error
  /// where this work cannot be captured.
  virtual std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) { return (void)work, nullptr; }
  virtual int vector_width() const = 0;  ///< floats in a register of this build's own kernels
  /// The 16-bit type in which this device multiplies fastest; f32: none that pays.
  virtual DType preferred_half() const { return DType::f32; }
  /// Measures the device with all its threads, in about a second and with 256 MiB of memory per thread, 4 GiB at
  /// most. Another process at work on the same device lowers both values.
  virtual DevicePeaks measure_peaks() = 0;
  /// Times candidates on this device while plans are being made, and remembers the choices. Null: candidates are taken
  /// by rules of thumb, or backends choose for themselves.
  virtual Autotuner* autotuner() { return nullptr; }
  /// The device's own energy counter, as it is now. Processors are counted by the system, for all who use them.
  virtual DeviceEnergy energy() { return {std::nullopt, "the device has no energy counter of its own"}; }

  /// Lets a watchdog look at long waits for this device, whose work may in turn wait for other ranks. A wait by
  /// fence(), copy_to_host() or Queue::wait() in the calling host thread calls `late` over and over from half a second
  /// on, with the seconds since it began. What `late` throws ends the wait and passes through. Ends with the returned
  /// handle.
  [[nodiscard]] std::shared_ptr<void> watch_waits(std::function<void(double seconds)> late);
  /// For those who implement a device and its queues: asks `ended` over and over until it says so, and lets watchdogs
  /// look. It asks without a pause at first, then lets other threads have the core in between, and only after half a
  /// second sleeps for 20 us between two questions.
  void wait_until(const std::function<bool()>& ended);

 private:
  struct Watch {
    std::thread::id thread;
    std::function<void(double seconds)> late;
  };
  std::vector<std::weak_ptr<Watch>> watches_;
};

}  // namespace keelson
