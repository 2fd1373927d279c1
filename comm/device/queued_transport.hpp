#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/device/transport.hpp"

namespace keelson::comm::detail {

class QueuedCollective;

/// The common part of StagedTransport and MpiTransport: they give a collective to MPI when the device's earlier work
/// has ended. On one rank the work before a later collective may end first, but all ranks must make MPI's calls in the
/// same order. So the collectives of all ranks go to MPI in the order of their starts.
class QueuedTransport : public Transport {
 public:
  QueuedTransport(Communicator& world, Device& device, std::string description);
  std::string describe() const override { return description_; }
  void poll(std::string_view waiting_for, double seconds) override;
  void abandon() override;

 protected:
  friend class QueuedCollective;

  /// A group for these collectives only. The device decides when they reach MPI, so they and the world's other calls
  /// may have another order on each rank.
  std::unique_ptr<Communicator> channel_;
  Device& device_;
  std::string description_;
  std::vector<QueuedCollective*> active_;  ///< leaving or exchanging, in the order of their start
  std::size_t made_ = 0;                   ///< collectives alive: active_ has room for all of them
};

/// The states: resting -start()-> leaving -the device's work, and the copy to the host, have ended-> exchanging -MPI
/// has ended-> returning -the copy to the device is queued before the device's next work, or has ended-> resting.
class QueuedCollective : public Collective {
 public:
  QueuedCollective(const QueuedCollective&) = delete;
  void start() override;
  void wait() override;

 protected:
  enum class State : std::uint8_t { resting, leaving, exchanging, returning };

  /// `memory`: the arrays of `exchange`, if they belong to this object.
  QueuedCollective(QueuedTransport& transport, const CollectiveDesc& desc, std::unique_ptr<Collective> exchange,
                   std::vector<std::shared_ptr<void>> memory = {});
  /// Destructors of derived classes call finish(), which waits. While an exception passes, finish() does not wait,
  /// since the other ranks may never take part.
  void finish();

  /// Lets all active collectives advance. Returns whether this collective is no longer active.
  virtual bool advance() = 0;
  /// The collective whose earlier device work this collective waits for; null: this collective waits for MPI.
  virtual const QueuedCollective* held_up_by() const = 0;
  /// Queues the copy to the host.
  virtual void copy_out() {}
  /// Waits for MPI, under its watchdog.
  virtual void wait_for_exchange() { exchange_->wait(); }

  friend class QueuedTransport;
  QueuedTransport& transport_;
  const bool point_to_point_;
  std::string device_work_;                    ///< the message's text about the device's work
  std::vector<std::shared_ptr<void>> memory_;  ///< outlives exchange_ and queue_
  std::unique_ptr<Collective> exchange_;       ///< over transport_.channel_
  std::unique_ptr<Queue> queue_;
  State state_ = State::resting;
};

}  // namespace keelson::comm::detail
