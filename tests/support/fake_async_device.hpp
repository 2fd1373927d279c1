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

class FakeCapture;

/// Work that is done in order, and only when a caller waits for it.
class Lane : public std::enable_shared_from_this<Lane> {
 public:
  void add(std::function<void()> work);
  void run_to(std::uint64_t count);  ///< runs the first `count` of all work that was ever added
  void run() { run_to(added()); }
  std::uint64_t added() const { return done_ + pending_.size(); }
  std::uint64_t done() const { return done_; }
  bool idle() const { return pending_.empty(); }
  std::shared_ptr<Event> record();
  void wait_for(const Event& event);

 private:
  friend class FakeCapture;
  std::deque<std::function<void()>> pending_;
  std::uint64_t done_ = 0;
  FakeCapture* capture_ = nullptr;  ///< keeps the work that is added; null: it is queued
};

/// Work that lanes have added, with what each piece of it waits for.
class FakeCapture {
 public:
  explicit FakeCapture(Lane& origin) { join(origin); }
  ~FakeCapture();
  void join(Lane& lane);
  void add(const Lane& lane, std::function<void()> work, std::size_t after = none);
  std::size_t end_of(const Lane& lane) const;  ///< the lane's last piece, or none
  void end();                                  ///< throws Error if a lane has work that the origin does not wait for
  /// All work, once: that of the lane number `preferred` as early as possible.
  void run(std::size_t preferred) const;
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

 private:
  struct Piece {
    std::size_t lane;
    std::function<void()> work;
    std::size_t after;  ///< a piece of another lane
  };
  std::size_t number_of(const Lane& lane) const;
  void leave();
  void require_joined() const;
  std::vector<std::shared_ptr<Lane>> lanes_;  ///< first the origin
  std::vector<Piece> pieces_;
};

/// A device with its own memory that detects code which treats it like the host. Access to its memory from the host is
/// a segmentation fault. All its work is delayed until a caller waits, so that work is never in order by accident. An
/// execution instance waits for another one only if that was requested. Of a captured graph, the work of one instance
/// is done as early as possible, and the next time the work of the other one. A queue does one piece of work after
/// several calls of idle(), and each queue has another pace. Memory of allocate_host() is unmapped at once when it is
/// freed.
class FakeAsyncDevice : public Device {
 public:
  /// Who may read and write the device's memory: only the device, or also libraries that know it (MPI).
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
  bool merges_launches() const override { return merges_; }
  void set_merges_launches(bool merges) { merges_ = merges; }  ///< true at first
  /// In the reverse order, so that a call which depends on another one computes something else.
  void run_together(std::size_t count, const std::function<void(std::size_t)>& call) override {
    run_together_ += count;
    for (std::size_t i = count; i-- > 0;) call(i);
  }
  std::size_t calls_run_together() const { return run_together_; }
  bool can_overlap() const override { return overlaps_; }
  void set_can_overlap(bool overlaps) { overlaps_ = overlaps; }  ///< true at first
  int instances_made() const { return static_cast<int>(instances_.size()); }

  /// Queues a kernel: `work` is done in order with all other work.
  void queue(std::function<void()> work) { lane().add(std::move(work)); }
  int launches() const { return replays_; }  ///< captured graphs launched so far
  bool idle() const;                         ///< whether all work, except that of queues, has ended
  /// For this time no work is done; a wait for a queue ends that queue's stall.
  void stall(double seconds);
  bool stalls() const { return std::chrono::steady_clock::now() < stalls_until_; }
  int queues_at_work() const;  ///< number of queues with work left
  char* inside(const void* device) const;

 private:
  friend class FakeQueue;
  struct Area {
    char *outside, *inside;  ///< the same memory: the address that callers get, and the address that the device uses
    std::size_t bytes;
  };

  friend class FakeCapturedGraph;
  friend class FakeInstance;
  Lane& lane() const;  ///< lane of the current instance
  Reach reach_;
  std::string bus_id_;
  DeviceEnergy energy_{std::nullopt, "no counter"};
  int replays_ = 0;
  std::size_t run_together_ = 0;
  bool merges_ = true, overlaps_ = true;
  std::vector<std::weak_ptr<Lane>> instances_;  ///< lanes of the execution instances
  std::shared_ptr<ExecutionInstance> main_;
  ExecutionInstance* current_ = nullptr;    ///< null: main_. This device supports one host thread
  std::vector<std::weak_ptr<Lane>> lanes_;  ///< lanes of the queues
  std::vector<Area> areas_;
  std::chrono::steady_clock::time_point stalls_until_{};
};

}  // namespace keelson::testing
