#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/ops/context.hpp"

namespace keelson::testing {

/// Work that is done in order, when someone needs it and not before.
class Lane : public std::enable_shared_from_this<Lane> {
 public:
  void add(std::function<void()> work) { pending_.push_back(std::move(work)); }
  void run_to(std::uint64_t count);  ///< the first `count` of all that was ever added
  void run() { run_to(added()); }
  std::uint64_t added() const { return done_ + pending_.size(); }
  std::uint64_t done() const { return done_; }
  bool idle() const { return pending_.empty(); }
  /// What `add` is given while `work` runs, instead of taking it.
  std::vector<std::function<void()>> kept(const std::function<void()>& work) {
    std::deque<std::function<void()>> before;
    before.swap(pending_);
    work();
    std::vector<std::function<void()>> added(pending_.begin(), pending_.end());
    pending_.swap(before);
    return added;
  }

 private:
  std::deque<std::function<void()>> pending_;
  std::uint64_t done_ = 0;
};

/// A device with memory of its own, made to catch whoever forgets what differs from the host's: touching its memory is
/// a segmentation fault; all its work is put off until someone waits, so that orders that nobody asked for do not come
/// about by themselves; an execution instance waits for another one only where that was asked for; a queue does one
/// thing after several calls of idle(), each queue at another pace; and memory of allocate_host() is gone at once when
/// it is given back.
class FakeAsyncDevice : public Device {
 public:
  /// Who beside the device may read and write its memory: nobody, or libraries that know it (MPI).
  enum class Reach : std::uint8_t { device, libraries };
  explicit FakeAsyncDevice(Reach reach, std::string bus_id = "");

  std::string describe() const override { return "a device that works asynchronously"; }
  std::string bus_id() const override { return bus_id_; }
  bool shares_host_memory() const override { return false; }
  bool is_asynchronous() const override { return true; }
  bool can_capture() const override { return true; }
  bool has_small_caches() const override { return false; }
  std::shared_ptr<void> allocate(std::size_t bytes, const std::string& label) override;
  std::shared_ptr<void> allocate_host(std::size_t bytes, const std::string& label) override;
  DeviceMemory memory() const override { return {}; }
  void limit_memory(std::size_t) override {}
  void copy_from_host(void* dst, const void* src, std::size_t bytes) override;
  void copy_to_host(void* dst, const void* src, std::size_t bytes) override;
  void copy(void* dst, const void* src, std::size_t bytes) override;
  void zero(void* dst, std::size_t bytes) override;
  void fence() override;
  ExecutionInstance& current_instance() override;
  std::shared_ptr<ExecutionInstance> make_instance(const InstanceOptions& options) override;
  std::unique_ptr<Queue> make_queue() override;
  int vector_width() const override { return 1; }
  DevicePeaks measure_peaks() override { return {}; }
  DeviceEnergy energy() override { return energy_; }
  void set_energy(const DeviceEnergy& energy) { energy_ = energy; }

  std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) override;

  /// Kernels on this device: `work` is done in order with everything else.
  void queue(std::function<void()> work) { lane().add(std::move(work)); }
  int launches() const { return replays_; }  ///< recordings started so far
  bool idle() const;                         ///< whether all work but that of queues has ended
  /// From now on nothing is done for so long; a wait for a queue ends that queue's stall.
  void stall(double seconds);
  bool stalls() const { return std::chrono::steady_clock::now() < stalls_until_; }
  int queues_at_work() const;  ///< those with something left to do
  char* inside(const void* device) const;

 private:
  friend class FakeQueue;
  struct Area {
    char *outside, *inside;  ///< the same memory, as it is given out and as this device sees it
    std::size_t bytes;
  };

  friend class FakeCapturedGraph;
  friend class FakeInstance;
  Lane& lane() const;  ///< of the current instance
  Reach reach_;
  std::string bus_id_;
  DeviceEnergy energy_{std::nullopt, "no counter"};
  int replays_ = 0;
  std::vector<std::weak_ptr<Lane>> instances_;  ///< lanes of the execution instances
  std::shared_ptr<ExecutionInstance> main_;
  ExecutionInstance* current_ = nullptr;    ///< null: main_. Such a device is for one host thread
  std::vector<std::weak_ptr<Lane>> lanes_;  ///< of the queues
  std::vector<Area> areas_;
  std::chrono::steady_clock::time_point stalls_until_{};
};

}  // namespace keelson::testing
