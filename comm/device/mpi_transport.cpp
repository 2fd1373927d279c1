#include <algorithm>

#include "comm/device/queued_transport.hpp"
#include "comm/mpi/collective.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm::detail {
namespace {

/// Gives the device's memory directly to MPI. Open MPI reads this memory in sends, receives and blocking collectives,
/// but not in non-blocking collectives. So a collective of all ranks is a blocking call. The host makes the call while
/// it waits for the collective, in the order of the starts, when the device's earlier work has ended and all ranks have
/// come. Such a call does not overlap with other work.
class MpiTransport final : public QueuedTransport {
 public:
  MpiTransport(Communicator& world, Device& device, std::string description)
      : QueuedTransport(world, device, std::move(description)) {
    if (dynamic_cast<MpiCommunicator*>(channel_.get()) == nullptr)
      refuse(
          "collectives 'mpi' are not available: these ranks do not communicate by MPI; choose "
          "KEELSON_COLLECTIVES=staged");
  }

  std::unique_ptr<Collective> make_collective(const CollectiveDesc& desc) override;
  void advance() override;

 private:
  friend class DeviceCollective;
};

/// A send or receive goes through the states leaving and exchanging. A collective of all ranks goes from leaving to
/// resting at once.
class DeviceCollective final : public QueuedCollective {
 public:
  DeviceCollective(MpiTransport& transport, MpiCommunicator& channel, const CollectiveDesc& desc)
      : QueuedCollective(transport, desc, std::make_unique<MpiCollective>(channel, desc)), mpi_(transport) {}
  ~DeviceCollective() override { finish(); }

  bool test() override { return advance(); }

  /// A send or receive goes to MPI when the device's earlier work has ended, independent of earlier collectives.
  void leave() {
    if (!point_to_point_ || state_ != State::leaving || !queue_->idle()) return;
    exchange_->start();
    state_ = State::exchanging;
  }

 private:
  void end() {
    state_ = State::resting;
    std::erase(mpi_.active_, this);
  }

  /// The first collective, of those started up to this one, for which the device's earlier work has not ended. Sends
  /// and receives that were started later count, too: other ranks may need them before they can take part.
  const QueuedCollective* held_up_by() const override {
    const auto& all = mpi_.active_;
    const auto own = std::find(all.begin(), all.end(), this);
    for (auto c = all.begin(); c != all.end(); ++c) {
      const auto& other = static_cast<const DeviceCollective&>(**c);
      if (other.state_ == State::leaving && (other.point_to_point_ || (c <= own && !other.queue_->idle()))) return *c;
    }
    return nullptr;
  }

  bool advance() override {
    if (state_ == State::resting) return true;
    mpi_.advance();
    if (point_to_point_) {
      if (state_ == State::exchanging && exchange_->test()) end();
    } else if (held_up_by() == nullptr) {
      while (state_ != State::resting) {
        const auto& all = mpi_.active_;
        auto* next = static_cast<DeviceCollective*>(*std::find_if(all.begin(), all.end(), [](const auto* c) {
          return !static_cast<const DeviceCollective*>(c)->point_to_point_;
        }));
        static_cast<MpiCollective&>(*next->exchange_).run_blocking();
        next->end();
      }
    }
    return state_ == State::resting;
  }

  void wait_for_exchange() override {
    if (point_to_point_) exchange_->wait();
  }

  MpiTransport& mpi_;
};

std::unique_ptr<Collective> MpiTransport::make_collective(const CollectiveDesc& desc) {
  if (desc.order != SumOrder::any)
    refuse(
        "{}: MPI adds arrays in the memory of devices in its own order; set KEELSON_COLLECTIVES=staged for sums "
        "in a fixed order (--reproducible)",
        desc.label);
  if (desc.wire != Wire::fp32)
    refuse("{}: MPI sends fp32 from the memory of devices; give --wire fp32, or set KEELSON_COLLECTIVES=staged",
           desc.label);
  return std::make_unique<DeviceCollective>(*this, dynamic_cast<MpiCommunicator&>(*channel_), desc);
}

void MpiTransport::advance() {
  for (QueuedCollective* c : active_) static_cast<DeviceCollective*>(c)->leave();
  channel_->progress().advance();
}

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(Communicator& world, Device& device, std::string description) {
  return std::make_unique<MpiTransport>(world, device, std::move(description));
}

}  // namespace keelson::comm::detail
