#include "comm/allreduce/part_exchange.hpp"

#include <algorithm>
#include <bit>
#include <ranges>

#include "comm/mpi/support.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm::detail {
namespace {

constexpr std::size_t longest_message = std::size_t{1} << 16;  // elements: 256 KiB

std::vector<PartStep> halve(int rank, int ranks) {
  std::vector<PartStep> steps;
  std::vector<int> kept(static_cast<std::size_t>(ranks));
  for (int part = 0; part < ranks; ++part) kept[static_cast<std::size_t>(part)] = part;
  for (int distance = 1; distance < ranks; distance *= 2) {
    PartStep step{rank ^ distance, rank ^ distance, {}, {}};
    for (const int part : kept) (((part ^ rank) & distance) != 0 ? step.sent : step.received).push_back(part);
    kept = step.received;
    steps.push_back(std::move(step));
  }
  return steps;
}

std::vector<PartStep> go_round(int rank, int ranks) {
  std::vector<PartStep> steps;
  const auto part = [&](int p) { return (p % ranks + ranks) % ranks; };
  for (int s = 1; s < ranks; ++s)
    steps.push_back({part(rank + 1), part(rank - 1), {part(rank - s)}, {part(rank - s - 1)}});
  return steps;
}

std::size_t most_parts(const std::vector<PartStep>& steps) {
  std::size_t most = 1;
  for (const PartStep& s : steps) most = std::max({most, s.sent.size(), s.received.size()});
  return most;
}

}  // namespace

std::vector<PartStep> make_reduce_scatter(int rank, int ranks) {
  return std::has_single_bit(static_cast<unsigned>(ranks)) ? halve(rank, ranks) : go_round(rank, ranks);
}

std::vector<PartStep> make_allgather(int rank, int ranks) {
  std::vector<PartStep> steps;
  for (const PartStep& s : std::views::reverse(make_reduce_scatter(rank, ranks)))
    steps.push_back({s.receive_from, s.send_to, s.received, s.sent});
  return steps;
}

PartExchange::PartExchange(MPI_Comm comm, int first_tag, const CollectiveDesc& desc)
    : comm_(comm), adds_(desc.kind == CollectiveDesc::Kind::reduce_scatter) {
  int ranks = 1;
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &ranks);
  steps_ = adds_ ? make_reduce_scatter(rank_, ranks) : make_allgather(rank_, ranks);
  data_ = static_cast<float*>(adds_ ? const_cast<void*>(desc.src) : desc.dst);
  result_ = adds_ ? static_cast<float*>(desc.dst) : nullptr;
  count_ = desc.bytes() / sizeof(float);
  KEELSON_EXPECT(desc.bytes() % sizeof(float) == 0);
  const std::size_t parts = most_parts(steps_);
  piece_ = std::max<std::size_t>(1, std::min(count_, longest_message / parts));
  pieces_ = (count_ + piece_ - 1) / piece_;
  for (int i = 0; i < most_at_once && static_cast<std::size_t>(i) < pieces_; ++i)
    lanes_.push_back(
        {first_tag + i, make_huge_page_array<float>(parts * piece_), make_huge_page_array<float>(parts * piece_)});
}

void PartExchange::start() {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i].piece = i;
    lanes_[i].step = 0;
    post(lanes_[i]);
  }
}

void PartExchange::post(Lane& lane) {
  const PartStep& step = steps_[lane.step];
  const std::size_t n = length(lane.piece);
  const auto in = static_cast<int>(step.received.size() * n), out = static_cast<int>(step.sent.size() * n);
  check(MPI_Irecv(lane.in.get(), in, MPI_FLOAT, step.receive_from, lane.tag, comm_, &lane.requests[0]), "MPI_Irecv");
  for (std::size_t i = 0; i < step.sent.size(); ++i)
    std::copy_n(piece_of(step.sent[i], lane.piece), n, lane.out.get() + i * n);
  check(MPI_Isend(lane.out.get(), out, MPI_FLOAT, step.send_to, lane.tag, comm_, &lane.requests[1]), "MPI_Isend");
}

void PartExchange::take(Lane& lane) {
  const std::size_t n = length(lane.piece);
  const float* from = lane.in.get();
  for (const int part : steps_[lane.step].received) {
    float* to = piece_of(part, lane.piece);
    if (adds_)
      for (std::size_t i = 0; i < n; ++i) to[i] += from[i];
    else
      std::copy_n(from, n, to);
    from += n;
  }
}

CollectiveWork::Progress PartExchange::advance(Lane& lane) {
  using enum Progress;
  bool moved = false;
  while (lane.piece < pieces_) {
    int done_now = 0;
    check(MPI_Testall(2, lane.requests.data(), &done_now, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (!done_now) return moved ? some : none;
    moved = true;
    take(lane);
    if (++lane.step == steps_.size()) {
      float* const mine = piece_of(rank_, lane.piece);
      float* const result = result_ ? result_ + lane.piece * piece_ : mine;
      if (result != mine) std::copy_n(mine, length(lane.piece), result);
      lane.step = 0;
      lane.piece += lanes_.size();
    }
    if (lane.piece < pieces_) post(lane);
  }
  return done;
}

CollectiveWork::Progress PartExchange::advance() {
  using enum Progress;
  bool all = true, moved = false;
  for (Lane& lane : lanes_) {
    const Progress progress = advance(lane);
    all = all && progress == done;
    moved = moved || progress != none;
  }
  return all ? done : moved ? some : none;
}

}  // namespace keelson::comm::detail
