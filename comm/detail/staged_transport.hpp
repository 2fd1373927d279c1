#pragma once

#include <string>
#include <vector>

#include "comm/detail/transport.hpp"

namespace keelson::comm::detail {

class StagedCollective;

/// Hands arrays of a device over to MPI, in the order in which their collectives were started: a rank's device may end
/// the work before the second one first, but all ranks must make MPI's calls in the same order.
class StagedTransport final : public Transport {
 public:
  StagedTransport(Communicator& world, Device& device, std::string description);

  std::string describe() const override { return description_; }
  std::unique_ptr<Collective> make_collective(const CollectiveDesc& desc) override;
  void progress() override;
  void poll(std::string_view waiting_for, double seconds) override { channel_->poll(waiting_for, seconds); }
  void abandon() override;

 private:
  friend class StagedCollective;

  /// For these collectives alone: when they reach MPI depends on the device, so that the group's other calls may come
  /// between them, elsewhere on every rank.
  std::unique_ptr<Communicator> channel_;
  Device& device_;
  std::string description_;
  std::vector<StagedCollective*> under_way_;  ///< leaving or exchanging, in the order of their start
  std::size_t made_ = 0;                      ///< collectives alive: under_way_ has room for them all
};

/// resting -start()-> leaving -the device's work, and the copy to the host, have ended-> exchanging -MPI has ended->
/// returning -the copy to the device is waited for, or has ended-> resting. Without copies nothing returns.
class StagedCollective final : public Collective {
 public:
  struct Array {  ///< on the device, and where its copy lies on the host; no bytes: nothing is copied
    void* device;
    void* host;
    std::size_t bytes;
  };
  /// `memory` is what the copies lie in, `exchange` the collective on them.
  StagedCollective(StagedTransport& transport, Array src, Array dst, std::vector<std::shared_ptr<void>> memory,
                   std::unique_ptr<Collective> exchange, const std::string& label);
  ~StagedCollective() override;
  StagedCollective(const StagedCollective&) = delete;

  void start() override;
  bool test() override;
  void wait() override;

 private:
  friend class StagedTransport;
  enum class State : std::uint8_t { resting, leaving, exchanging, returning };

  bool under_way() const { return state_ == State::leaving || state_ == State::exchanging; }
  bool leave();    ///< whether it has left for MPI
  bool arrive();   ///< whether MPI has brought it back
  bool advance();  ///< whether it is no longer under way
  /// While under way, after `seconds` of waiting: lets the watchdog report what is waited for.
  void wait_late(double seconds);

  StagedTransport& transport_;
  Array src_, dst_;
  std::string device_work_;  ///< what is waited for while leaving
  State state_ = State::resting;
  std::vector<std::shared_ptr<void>> memory_;
  std::unique_ptr<Collective> exchange_;
  std::unique_ptr<Queue> queue_;
};

}  // namespace keelson::comm::detail
