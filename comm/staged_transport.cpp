#include "comm/detail/staged_transport.hpp"

#include <algorithm>
#include <exception>

#include "engine/base/detail/backoff.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm::detail {

StagedTransport::StagedTransport(Communicator& world, Device& device, std::string description)
    : channel_(world.split(0, world.rank())), device_(device), description_(std::move(description)) {}

std::unique_ptr<Collective> StagedTransport::make_collective(const CollectiveDesc& desc) {
  const int rank = channel_->rank(), size = channel_->size();
  const std::size_t src_bytes = desc.src_bytes(rank, size), dst_bytes = desc.dst_bytes(rank, size);
  CollectiveDesc on_host = desc;
  std::vector<std::shared_ptr<void>> memory;
  if (desc.src == desc.dst) {  // one array in both roles
    memory.push_back(device_.allocate_host(desc.bytes(), desc.label + " on the host"));
    on_host.src = on_host.dst = memory[0].get();
  } else {
    memory.push_back(device_.allocate_host(src_bytes, desc.label + " on the host, source"));
    memory.push_back(device_.allocate_host(dst_bytes, desc.label + " on the host, destination"));
    on_host.src = memory[0].get();
    on_host.dst = memory[1].get();
  }
  const StagedCollective::Array src{const_cast<void*>(desc.src), const_cast<void*>(on_host.src), src_bytes};
  const StagedCollective::Array dst{desc.dst, on_host.dst, dst_bytes};
  return std::make_unique<StagedCollective>(*this, src, dst, std::move(memory), channel_->make_collective(on_host),
                                            desc.label);
}

void StagedTransport::progress() {
  for (StagedCollective* c : under_way_)
    if (!c->leave()) break;
  // They mostly end in order, and asking MPI about one drives all.
  while (!under_way_.empty() && under_way_.front()->arrive()) under_way_.erase(under_way_.begin());
}

/// MPI has ended its part already, with the group.
void StagedTransport::abandon() {
  for (StagedCollective* c : under_way_) {
    c->queue_->wait();
    c->state_ = StagedCollective::State::resting;
  }
  under_way_.clear();
}

StagedCollective::StagedCollective(StagedTransport& transport, Array src, Array dst,
                                   std::vector<std::shared_ptr<void>> memory, std::unique_ptr<Collective> exchange,
                                   const std::string& label)
    : transport_(transport),
      src_(src),
      dst_(dst),
      device_work_("the device's work before " + label),
      memory_(std::move(memory)),
      exchange_(std::move(exchange)),
      queue_(transport.device_.make_urgent_queue()) {
  transport_.under_way_.reserve(++transport_.made_);
}

StagedCollective::~StagedCollective() {
  --transport_.made_;
  try {
    // As for MPI's own collectives: while an exception passes, the other ranks may never take part.
    if (std::uncaught_exceptions() == 0) wait();
  } catch (const std::exception&) {
  }
  std::erase(transport_.under_way_, this);
  try {
    queue_->wait();  // no copy may outlive its memory
  } catch (const std::exception&) {
  }
}

void StagedCollective::start() {
  KEELSON_EXPECT(state_ == State::resting);
  // Behind the last copy to the device too, which lies in this queue.
  queue_->wait_for_device();
  if (src_.bytes > 0) queue_->copy_to_host(src_.host, src_.device, src_.bytes);
  state_ = State::leaving;
  transport_.under_way_.push_back(this);
}

bool StagedCollective::leave() {
  if (state_ == State::exchanging) return true;
  if (!queue_->idle()) return false;
  exchange_->start();
  state_ = State::exchanging;
  return true;
}

bool StagedCollective::arrive() {
  if (state_ != State::exchanging || !exchange_->test()) return false;
  if (dst_.bytes > 0) queue_->copy_from_host(dst_.device, dst_.host, dst_.bytes);
  state_ = dst_.bytes > 0 ? State::returning : State::resting;
  return true;
}

bool StagedCollective::advance() {
  if (!under_way()) return true;
  transport_.progress();
  // The oldest may last longer: a receive whose sender waits for this one first.
  if (under_way() && arrive()) std::erase(transport_.under_way_, this);
  return !under_way();
}

bool StagedCollective::test() {
  advance();
  if (state_ == State::returning && queue_->idle()) state_ = State::resting;
  return state_ == State::resting;
}

void StagedCollective::wait_late(double seconds) {
  const auto& all = transport_.under_way_;
  const auto leaving = std::find_if(all.begin(), all.end(), [](auto* c) { return c->state_ == State::leaving; });
  // MPI may wait for long only when it has all that was started: other ranks may need that first.
  if (leaving == all.end())
    exchange_->wait();
  else
    transport_.channel_->poll((*leaving)->device_work_, seconds);
}

void StagedCollective::wait() {
  Backoff backoff;
  while (!advance())
    if (const double seconds = backoff(); seconds >= Backoff::late) wait_late(seconds);
  if (state_ == State::returning) queue_->device_waits();  // the device waits for the copy, not the host
  state_ = State::resting;
}

std::unique_ptr<Transport> make_staged_transport(Communicator& world, Device& device, std::string description) {
  return std::make_unique<StagedTransport>(world, device, std::move(description));
}

}  // namespace keelson::comm::detail
