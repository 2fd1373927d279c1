#include "comm/allreduce/peer_exchange.hpp"

#include <algorithm>

#include "comm/allreduce/wire.hpp"
#include "comm/mpi/support.hpp"

namespace keelson::comm::detail {

PeerExchange::PeerExchange(MPI_Comm comm, int tag, const Schedule& schedule, std::size_t most, Wire wire)
    : comm_(comm), tag_(tag), schedule_(schedule), wire_(wire) {
  std::size_t longest_out = 0, longest_in = 0;
  count_ = most;
  for (const ExchangeStep& step : schedule_.steps) {
    if (wire_ != Wire::fp32) longest_out = std::max(longest_out, sent(step).count);
    if (by_way_of_memory(step)) longest_in = std::max(longest_in, received(step).count);
  }
  step_ = schedule_.steps.size();
  // For a shorter array, the same blocks may have one element more.
  out_ = make_huge_page_array<std::byte>((longest_out + 1) * wire_bytes(wire_));
  in_ = make_huge_page_array<std::byte>((longest_in + 1) * wire_bytes(wire_));
}

PeerExchange::Range PeerExchange::sent(const ExchangeStep& step) const {
  const std::size_t begin = schedule_.begin_of(step.send_begin, count_);
  return {begin, schedule_.begin_of(step.send_end, count_) - begin};
}

PeerExchange::Range PeerExchange::received(const ExchangeStep& step) const {
  const std::size_t begin = schedule_.begin_of(step.receive_begin, count_);
  return {begin, schedule_.begin_of(step.receive_end, count_) - begin};
}

void PeerExchange::start(float* data, std::size_t count, float* residual) {
  data_ = data;
  count_ = count;
  residual_ = residual;
  step_ = 0;
  post();
}

void PeerExchange::post() {
  if (step_ == schedule_.steps.size()) return;
  const ExchangeStep& step = schedule_.steps[step_];
  const Range in = received(step), out = sent(step);
  const MPI_Datatype type = wire_ == Wire::fp32 ? MPI_FLOAT : MPI_UINT16_T;
  if (in.count > 0) {
    void* to = by_way_of_memory(step) ? static_cast<void*>(in_.get()) : data_ + in.begin;
    check(MPI_Irecv(to, static_cast<int>(in.count), type, step.receive_from, tag_, comm_, &requests_[0]), "MPI_Irecv");
  }
  if (out.count == 0) return;
  const void* from = data_ + out.begin;
  if (wire_ != Wire::fp32) {
    auto* packed = reinterpret_cast<std::uint16_t*>(out_.get());
    const bool rounded = step.sends == ExchangeStep::Sends::copies;
    pack(wire_, data_ + out.begin, packed, out.count, rounded ? nullptr : residual_ + out.begin);
    if (step.sends == ExchangeStep::Sends::sums) unpack(wire_, packed, data_ + out.begin, out.count, false);
    from = packed;
  }
  check(MPI_Isend(from, static_cast<int>(out.count), type, step.send_to, tag_, comm_, &requests_[1]), "MPI_Isend");
}

void PeerExchange::take() {
  const ExchangeStep& step = schedule_.steps[step_];
  const Range in = received(step);
  if (in.count == 0 || !by_way_of_memory(step)) return;
  if (wire_ != Wire::fp32)
    return unpack(wire_, reinterpret_cast<const std::uint16_t*>(in_.get()), data_ + in.begin, in.count, step.adds);
  const auto* terms = reinterpret_cast<const float*>(in_.get());
  for (std::size_t i = 0; i < in.count; ++i) data_[in.begin + i] += terms[i];
}

CollectiveWork::Progress PeerExchange::advance() {
  using enum CollectiveWork::Progress;
  const std::size_t before = step_;
  while (step_ < schedule_.steps.size()) {
    int done_now = 0;
    check(MPI_Testall(2, requests_.data(), &done_now, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (!done_now) return step_ > before ? some : none;
    take();
    ++step_;
    post();
  }
  return done;
}

}  // namespace keelson::comm::detail
