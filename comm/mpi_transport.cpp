#include <algorithm>
#include <exception>
#include <vector>

#include "comm/detail/mpi_collective.hpp"
#include "comm/detail/transport.hpp"
#include "engine/base/detail/backoff.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm::detail {
namespace {

class DeviceCollective;

/// Hands the device's memory itself to MPI. Open MPI reads it in sends, receives and blocking collectives, but not in
/// non-blocking ones. So a collective of all ranks is a blocking call that is made while the host waits for it, in the
/// order of the starts, when the device's work before it has ended and all ranks have come. Nothing of it overlaps.
class MpiTransport final : public Transport {
 public:
  MpiTransport(Communicator& world, Device& device, std::string description)
      : channel_(world.split(0, world.rank())),
        mpi_(dynamic_cast<MpiCommunicator*>(channel_.get())),
        device_(device),
        description_(std::move(description)) {
    if (mpi_ == nullptr)
      refuse(
          "collectives 'mpi' cannot be had: these ranks do not communicate by MPI; choose KEELSON_COLLECTIVES=staged");
  }

  std::string describe() const override { return description_; }
  std::unique_ptr<Collective> make_collective(const CollectiveDesc& desc) override;
  void progress() override;
  void poll(std::string_view waiting_for, double seconds) override { channel_->poll(waiting_for, seconds); }
  void abandon() override;

 private:
  friend class DeviceCollective;

  std::unique_ptr<Communicator> channel_;  ///< for these collectives alone, as in StagedTransport
  MpiCommunicator* mpi_;                   ///< channel_
  Device& device_;
  std::string description_;
  std::vector<DeviceCollective*> under_way_;  ///< in the order of their start
  std::size_t made_ = 0;                      ///< collectives alive: under_way_ has room for them all
};

/// resting -start()-> leaving -the device's work has ended-> for sends and receives: exchanging -MPI has ended->
/// resting. What all ranks do goes from leaving to resting at once.
class DeviceCollective final : public Collective {
 public:
  DeviceCollective(MpiTransport& transport, const CollectiveDesc& desc)
      : transport_(transport),
        exchange_(*transport.mpi_, desc),
        point_to_point_(desc.point_to_point()),
        device_work_("the device's work before " + desc.label),
        queue_(transport.device_.make_urgent_queue()) {
    transport_.under_way_.reserve(++transport_.made_);
  }
  ~DeviceCollective() override {
    --transport_.made_;
    try {
      // While an exception passes, the other ranks may never take part.
      if (std::uncaught_exceptions() == 0) wait();
    } catch (const std::exception&) {
    }
    std::erase(transport_.under_way_, this);
    try {
      queue_->wait();
    } catch (const std::exception&) {
    }
  }
  DeviceCollective(const DeviceCollective&) = delete;

  void start() override {
    KEELSON_EXPECT(state_ == State::resting);
    queue_->wait_for_device();
    state_ = State::leaving;
    transport_.under_way_.push_back(this);
  }
  bool test() override { return advance(); }
  void wait() override {
    Backoff backoff;
    while (!advance())
      if (const double seconds = backoff(); seconds >= Backoff::late) wait_late(seconds);
  }

 private:
  friend class MpiTransport;
  enum class State : std::uint8_t { resting, leaving, exchanging };

  void end() {
    state_ = State::resting;
    std::erase(transport_.under_way_, this);
  }

  /// A send or receive goes to MPI when the device's work before it has ended, whatever was started before.
  void leave() {
    if (!point_to_point_ || state_ != State::leaving || !queue_->idle()) return;
    exchange_.start();
    state_ = State::exchanging;
  }

  /// Of what was started up to this, the first that the device has not ended its work for. Sends and receives that were
  /// started later count, too: other ranks may need them before they can take part.
  DeviceCollective* held_up_by() {
    const auto& all = transport_.under_way_;
    const auto own = std::find(all.begin(), all.end(), this);
    for (auto c = all.begin(); c != all.end(); ++c)
      if ((*c)->state_ == State::leaving && ((*c)->point_to_point_ || (c <= own && !(*c)->queue_->idle()))) return *c;
    return nullptr;
  }

  /// Whether it is no longer under way.
  bool advance() {
    if (state_ == State::resting) return true;
    transport_.progress();
    if (point_to_point_) {
      if (state_ == State::exchanging && exchange_.test()) end();
    } else if (held_up_by() == nullptr) {
      while (state_ != State::resting) {
        auto& all = transport_.under_way_;
        auto* next = *std::find_if(all.begin(), all.end(), [](const auto* c) { return !c->point_to_point_; });
        next->exchange_.run_blocking();
        next->end();
      }
    }
    return state_ == State::resting;
  }

  /// After `seconds` of waiting: lets the watchdog report what is waited for.
  void wait_late(double seconds) {
    if (const auto* other = held_up_by())
      transport_.channel_->poll(other->device_work_, seconds);
    else if (point_to_point_)
      exchange_.wait();
  }

  MpiTransport& transport_;
  MpiCollective exchange_;
  bool point_to_point_;
  std::string device_work_;  ///< what is waited for while leaving
  State state_ = State::resting;
  std::unique_ptr<Queue> queue_;
};

std::unique_ptr<Collective> MpiTransport::make_collective(const CollectiveDesc& desc) {
  if (desc.order != SumOrder::any)
    refuse(
        "{}: MPI adds what lies in the memory of devices in an order of its own; set KEELSON_COLLECTIVES=staged for "
        "sums in a fixed order "
        "(--reproducible)",
        desc.label);
  if (desc.wire != Wire::fp32)
    refuse("{}: MPI sends fp32 from the memory of devices; give --wire fp32, or set KEELSON_COLLECTIVES=staged",
           desc.label);
  return std::make_unique<DeviceCollective>(*this, desc);
}

void MpiTransport::progress() {
  for (DeviceCollective* c : under_way_) c->leave();
  channel_->progress();
}

/// MPI has ended its part already, with the group.
void MpiTransport::abandon() {
  for (DeviceCollective* c : under_way_) {
    c->queue_->wait();
    c->state_ = DeviceCollective::State::resting;
  }
  under_way_.clear();
}

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(Communicator& world, Device& device, std::string description) {
  return std::make_unique<MpiTransport>(world, device, std::move(description));
}

}  // namespace keelson::comm::detail
