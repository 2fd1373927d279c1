#include "comm/detail/relay.hpp"

#include <exception>

#include "comm/detail/patience.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm::detail {

Relay::Relay(Communicator& world, Device& device, Through through, std::string description)
    : channel_(world.split(0, world.rank())),
      device_(device),
      through_(through),
      description_(std::move(description)) {}

template <class T>
std::unique_ptr<Collective> Relay::allreduce(T* data, std::size_t count, const std::string& label) {
  const std::size_t bytes = count * sizeof(T);
  std::vector<std::shared_ptr<void>> memory;
  T* host = data;
  if (through_ == Through::host) {
    memory.push_back(device_.allocate_host(bytes, label + " on the host"));
    host = static_cast<T*>(memory[0].get());
  }
  const RelayedCollective::Array array{data, host, bytes};
  return std::make_unique<RelayedCollective>(*this, array, array, std::move(memory),
                                             channel_->make_allreduce(host, count, label), label);
}

std::unique_ptr<Collective> Relay::make_allreduce(float* data, std::size_t count, const std::string& label) {
  return allreduce(data, count, label);
}

std::unique_ptr<Collective> Relay::make_allreduce(double* data, std::size_t count, const std::string& label) {
  return allreduce(data, count, label);
}

std::unique_ptr<Collective> Relay::make_allgather(const void* mine, void* all, std::size_t bytes,
                                                  const std::string& label) {
  const std::size_t all_bytes = bytes * static_cast<std::size_t>(channel_->size());
  auto* from = const_cast<void*>(mine);  // an Array may be written to; the source never is
  RelayedCollective::Array src{from, from, bytes}, dst{all, all, all_bytes};
  std::vector<std::shared_ptr<void>> memory;
  if (through_ == Through::host) {
    memory.push_back(device_.allocate_host(bytes, label + " on the host"));
    memory.push_back(device_.allocate_host(all_bytes, label + " of all ranks on the host"));
    src.host = memory[0].get();
    dst.host = memory[1].get();
  }
  return std::make_unique<RelayedCollective>(*this, src, dst, std::move(memory),
                                             channel_->make_allgather(src.host, dst.host, bytes, label), label);
}

void Relay::progress() {
  for (RelayedCollective* c : under_way_)
    if (!c->leave()) break;
  // They mostly end in order, and asking MPI about one drives all.
  while (!under_way_.empty() && under_way_.front()->arrive()) under_way_.erase(under_way_.begin());
}

void Relay::wait_for_first(double seconds) {
  RelayedCollective& first = *under_way_.front();
  if (first.state_ == RelayedCollective::State::exchanging)
    first.exchange_->wait();
  else
    channel_->look(first.device_work_, seconds);
}

RelayedCollective::RelayedCollective(Relay& relay, Array src, Array dst, std::vector<std::shared_ptr<void>> memory,
                                     std::unique_ptr<Collective> exchange, const std::string& label)
    : relay_(relay),
      src_(src),
      dst_(dst),
      copies_(src.host != src.device),
      device_work_("the device's work before " + label),
      memory_(std::move(memory)),
      exchange_(std::move(exchange)),
      queue_(relay.device_.make_queue()) {
  relay_.under_way_.reserve(++relay_.made_);
}

RelayedCollective::~RelayedCollective() {
  --relay_.made_;
  try {
    // As for MPI's own collectives: while an exception passes, the other ranks may never take part.
    if (std::uncaught_exceptions() == 0) wait();
  } catch (const std::exception&) {
  }
  std::erase(relay_.under_way_, this);
  try {
    queue_->wait();  // no copy may outlive its memory
  } catch (const std::exception&) {
  }
}

void RelayedCollective::start() {
  KEELSON_EXPECT(state_ == State::resting);
  // Behind the last copy to the device too, which lies in this queue.
  queue_->follow();
  if (copies_) queue_->copy_to_host(src_.host, src_.device, src_.bytes);
  state_ = State::leaving;
  relay_.under_way_.push_back(this);
}

bool RelayedCollective::leave() {
  if (state_ == State::exchanging) return true;
  if (!queue_->idle()) return false;
  exchange_->start();
  state_ = State::exchanging;
  return true;
}

bool RelayedCollective::arrive() {
  if (state_ != State::exchanging || !exchange_->test()) return false;
  if (copies_) queue_->copy_from_host(dst_.device, dst_.host, dst_.bytes);
  state_ = copies_ ? State::returning : State::resting;
  return true;
}

bool RelayedCollective::test() {
  if (under_way()) relay_.progress();
  if (state_ == State::returning && queue_->idle()) state_ = State::resting;
  return state_ == State::resting;
}

void RelayedCollective::wait() {
  Patience patience;
  while (under_way()) {
    relay_.progress();
    if (!under_way()) break;
    if (const double seconds = patience(); seconds >= Patience::late) relay_.wait_for_first(seconds);
  }
  if (state_ == State::returning) queue_->lead();  // the device waits for the copy, not the host
  state_ = State::resting;
}

std::unique_ptr<Route> make_relay(Communicator& world, Device& device, Through through, std::string description) {
  return std::make_unique<Relay>(world, device, through, std::move(description));
}

}  // namespace keelson::comm::detail
