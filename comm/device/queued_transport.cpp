#include "comm/device/queued_transport.hpp"

#include <exception>

#include "engine/base/backoff.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm::detail {

QueuedTransport::QueuedTransport(Communicator& world, Device& device, std::string description)
    : channel_(world.split(0, world.rank())), device_(device), description_(std::move(description)) {}

void QueuedTransport::poll(std::string_view waiting_for, double seconds) {
  channel_->watchdog().poll(waiting_for, seconds);
}

/// MPI has already ended its collectives, together with the group.
void QueuedTransport::abandon() {
  for (QueuedCollective* c : active_) {
    c->queue_->wait();
    c->state_ = QueuedCollective::State::resting;
  }
  active_.clear();
}

QueuedCollective::QueuedCollective(QueuedTransport& transport, const CollectiveDesc& desc,
                                   std::unique_ptr<Collective> exchange, std::vector<std::shared_ptr<void>> memory)
    : transport_(transport),
      point_to_point_(desc.point_to_point()),
      device_work_("the device's work before " + desc.label),
      memory_(std::move(memory)),
      exchange_(std::move(exchange)),
      queue_(transport.device_.make_urgent_queue()) {
  transport_.active_.reserve(++transport_.made_);
}

void QueuedCollective::finish() {
  --transport_.made_;
  try {
    if (std::uncaught_exceptions() == 0) wait();
  } catch (const std::exception&) {
  }
  std::erase(transport_.active_, this);
  try {
    queue_->wait();  // no copy may outlive its memory
  } catch (const std::exception&) {
  }
}

void QueuedCollective::start() {
  KEELSON_EXPECT(state_ == State::resting);
  // The queue also holds the last copy to the device.
  queue_->wait_for_device();
  copy_out();
  state_ = State::leaving;
  transport_.active_.push_back(this);
}

void QueuedCollective::wait() {
  Backoff backoff;
  while (!advance()) {
    const double seconds = backoff();
    if (seconds < Backoff::late) continue;
    if (const QueuedCollective* other = held_up_by())
      transport_.poll(other->device_work_, seconds);
    else
      wait_for_exchange();
  }
  if (state_ == State::returning) queue_->device_waits();  // the device waits for the copy, not the host
  state_ = State::resting;
}

}  // namespace keelson::comm::detail
