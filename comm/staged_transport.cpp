#include "comm/detail/staged_transport.hpp"

#include <exception>

#include "comm/detail/backoff.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm::detail {

StagedTransport::StagedTransport(Communicator& world, Device& device, StagingMode mode, std::string description)
    : channel_(world.split(0, world.rank())), device_(device), mode_(mode), description_(std::move(description)) {}

template <class T>
std::unique_ptr<Collective> StagedTransport::allreduce(T* data, std::size_t count, const std::string& label) {
  const std::size_t bytes = count * sizeof(T);
  std::vector<std::shared_ptr<void>> memory;
  T* host = data;
  if (mode_ == StagingMode::host) {
    memory.push_back(device_.allocate_host(bytes, label + " on the host"));
    host = static_cast<T*>(memory[0].get());
  }
  const StagedCollective::Array array{data, host, bytes};
  return std::make_unique<StagedCollective>(*this, array, array, std::move(memory),
                                            channel_->make_allreduce(host, count, label), label);
}

std::unique_ptr<Collective> StagedTransport::make_allreduce(float* data, std::size_t count, const std::string& label) {
  return allreduce(data, count, label);
}

std::unique_ptr<Collective> StagedTransport::make_allreduce(double* data, std::size_t count, const std::string& label) {
  return allreduce(data, count, label);
}

std::unique_ptr<Collective> StagedTransport::make_allgather(const void* mine, void* all, std::size_t bytes,
                                                            const std::string& label) {
  const std::size_t all_bytes = bytes * static_cast<std::size_t>(channel_->size());
  auto* from = const_cast<void*>(mine);  // an Array may be written to; the source never is
  StagedCollective::Array src{from, from, bytes}, dst{all, all, all_bytes};
  std::vector<std::shared_ptr<void>> memory;
  if (mode_ == StagingMode::host) {
    memory.push_back(device_.allocate_host(bytes, label + " on the host"));
    memory.push_back(device_.allocate_host(all_bytes, label + " of all ranks on the host"));
    src.host = memory[0].get();
    dst.host = memory[1].get();
  }
  return std::make_unique<StagedCollective>(*this, src, dst, std::move(memory),
                                            channel_->make_allgather(src.host, dst.host, bytes, label), label);
}

void StagedTransport::progress() {
  for (StagedCollective* c : under_way_)
    if (!c->leave()) break;
  // They mostly end in order, and asking MPI about one drives all.
  while (!under_way_.empty() && under_way_.front()->arrive()) under_way_.erase(under_way_.begin());
}

void StagedTransport::wait_for_first(double seconds) {
  StagedCollective& first = *under_way_.front();
  if (first.state_ == StagedCollective::State::exchanging)
    first.exchange_->wait();
  else
    channel_->poll(first.device_work_, seconds);
}

StagedCollective::StagedCollective(StagedTransport& transport, Array src, Array dst,
                                   std::vector<std::shared_ptr<void>> memory, std::unique_ptr<Collective> exchange,
                                   const std::string& label)
    : transport_(transport),
      src_(src),
      dst_(dst),
      copies_(src.host != src.device),
      device_work_("the device's work before " + label),
      memory_(std::move(memory)),
      exchange_(std::move(exchange)),
      queue_(transport.device_.make_queue()) {
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
  if (copies_) queue_->copy_to_host(src_.host, src_.device, src_.bytes);
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
  if (copies_) queue_->copy_from_host(dst_.device, dst_.host, dst_.bytes);
  state_ = copies_ ? State::returning : State::resting;
  return true;
}

bool StagedCollective::test() {
  if (under_way()) transport_.progress();
  if (state_ == State::returning && queue_->idle()) state_ = State::resting;
  return state_ == State::resting;
}

void StagedCollective::wait() {
  Backoff backoff;
  while (under_way()) {
    transport_.progress();
    if (!under_way()) break;
    if (const double seconds = backoff(); seconds >= Backoff::late) transport_.wait_for_first(seconds);
  }
  if (state_ == State::returning) queue_->device_waits();  // the device waits for the copy, not the host
  state_ = State::resting;
}

std::unique_ptr<Transport> make_staged_transport(Communicator& world, Device& device, StagingMode mode,
                                                 std::string description) {
  return std::make_unique<StagedTransport>(world, device, mode, std::move(description));
}

}  // namespace keelson::comm::detail
