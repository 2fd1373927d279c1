#include "comm/allreduce/node_sum.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace keelson::comm::detail {
namespace {

constexpr std::size_t kilo = 1024, mega = 1024 * kilo;

/// Within a node, some slots fit into a core's second cache. Between nodes, pieces are long enough for the network.
std::size_t slot_bytes(int nodes) { return nodes == 1 ? 256 * kilo : mega; }

/// The slots have room for whole buckets, so that ranks seldom wait for each other: a rank writes its terms and goes
/// on. All ranks of a node together need less than the shared memory of a container, 64 MiB.
std::size_t slots(MPI_Comm node, int nodes) {
  int ranks = 1;
  MPI_Comm_size(node, &ranks);
  constexpr std::size_t least = 4, most_of_rank = 16 * mega, most_of_node = 48 * mega;
  return std::max(least, std::min(most_of_rank, most_of_node / static_cast<std::size_t>(ranks)) / slot_bytes(nodes));
}
constexpr std::size_t small_floats = 512;    // for fewer floats, exchanging parts costs more than adding all of them
constexpr std::size_t floats_per_line = 16;  // ranks write to different cache lines

}  // namespace

NodeSum::NodeSum(const NodeLayout& layout, Schedule between, Wire wire, int number)
    : layout_(layout),
      memory_(layout.node, slot_bytes(layout.nodes), slots(layout.node, layout.nodes)),
      between_(std::move(between)),
      pieces_(memory_.slots()) {
  if (layout_.nodes == 1 || memory_.rank() >= layout_.parts) return;
  const std::size_t longest = part_of(0, floats_per_slot()).end;
  for (std::size_t slot = 0; slot < memory_.slots(); ++slot) {
    const int tag = static_cast<int>(static_cast<std::size_t>(number) * memory_.slots() + slot);
    exchanges_.push_back(std::make_unique<PeerExchange>(layout_.peers, tag, between_, longest, wire));
  }
}

void NodeSum::start(Request& request) {
  queued_ += (request.count + floats_per_slot() - 1) / floats_per_slot();
  request.end = queued_;
  request.next = nullptr;
  if (request.count == 0) return;
  (first_ ? last_->next : first_) = &request;
  last_ = &request;
  advance();
}

NodeSum::Part NodeSum::part_of(int rank, std::size_t count) const {
  const auto parts = static_cast<std::size_t>(layout_.parts);
  const std::size_t lines = (count + floats_per_line - 1) / floats_per_line;
  const std::size_t length = (lines + parts - 1) / parts * floats_per_line, r = static_cast<std::size_t>(rank);
  return r < parts ? Part{std::min(r * length, count), std::min((r + 1) * length, count)} : Part{count, count};
}

bool NodeSum::all_at(NodeMemory::Counter NodeMemory::Counters::* counter, std::uint64_t least) const {
  for (int r = 0; r < memory_.size(); ++r)
    if ((memory_.counters(r).*counter).load(std::memory_order_acquire) < least) return false;
  return true;
}

/// Cuts the next piece off the oldest array that is not yet completely cut.
void NodeSum::take_next_piece() {
  Request& request = *first_;
  const std::size_t count = std::min(floats_per_slot(), request.count - taken_of_first_);
  piece(filled_) = {request.data + taken_of_first_, count,
                    request.residual ? request.residual + taken_of_first_ : nullptr,
                    layout_.nodes == 1 && count <= small_floats};
  taken_of_first_ += count;
  if (taken_of_first_ < request.count) return;
  first_ = request.next;
  taken_of_first_ = 0;
}

void NodeSum::fill(std::uint64_t number) {
  const Piece& p = piece(number);
  float* slot = memory_.slot(memory_.rank(), slot_of(number));
  const Part own = p.small ? Part{p.count, p.count} : part_of(memory_.rank(), p.count);
  std::memcpy(slot, p.data, own.begin * sizeof(float));  // all but the part that this rank sums
  std::memcpy(slot + own.end, p.data + own.end, (p.count - own.end) * sizeof(float));
  mine().filled.store(number + 1, std::memory_order_release);
}

/// Adds this part of all ranks of the node, in the order of the ranks. `to` may be the memory of this rank's terms.
void NodeSum::add_up(const Piece& p, std::size_t slot, Part part, float* to) const {
  const auto terms_of = [&](int r) {
    return (r == memory_.rank() && !p.small ? p.data : memory_.slot(r, slot)) + part.begin;
  };
  const std::size_t count = part.end - part.begin;
  if (memory_.size() == 1) {
    if (to != terms_of(0)) std::memcpy(to, terms_of(0), count * sizeof(float));
    return;
  }
  constexpr std::size_t strip = 2048;  // stays in the first cache while all ranks' terms are added
  float sums[strip];
  for (std::size_t begin = 0; begin < count; begin += strip) {
    const std::size_t n = std::min(strip, count - begin);
    const float *a = terms_of(0) + begin, *b = terms_of(1) + begin;
    for (std::size_t i = 0; i < n; ++i) sums[i] = a[i] + b[i];
    for (int r = 2; r < memory_.size(); ++r) {
      const float* c = terms_of(r) + begin;
      for (std::size_t i = 0; i < n; ++i) sums[i] += c[i];
    }
    std::memcpy(to + begin, sums, n * sizeof(float));
  }
}

void NodeSum::sum(std::uint64_t number) {
  const Piece& p = piece(number);
  if (p.small) return;
  const Part own = part_of(memory_.rank(), p.count);
  float* to = memory_.slot(memory_.rank(), slot_of(number)) + own.begin;
  add_up(p, slot_of(number), own, to);
  if (!exchanges_.empty())
    exchanges_[slot_of(number)]->start(to, own.end - own.begin, p.residual ? p.residual + own.begin : nullptr);
}

void NodeSum::publish(std::uint64_t number) { mine().summed.store(number + 1, std::memory_order_release); }

void NodeSum::gather(std::uint64_t number) {
  const Piece& p = piece(number);
  if (p.small) {
    add_up(p, slot_of(number), {0, p.count}, p.data);
  } else {
    for (int r = 0; r < layout_.parts; ++r) {
      const Part part = part_of(r, p.count);
      std::memcpy(p.data + part.begin, memory_.slot(r, slot_of(number)) + part.begin,
                  (part.end - part.begin) * sizeof(float));
    }
  }
  mine().emptied.store(number + 1, std::memory_order_release);
}

bool NodeSum::advance() {
  using Counters = NodeMemory::Counters;
  using enum CollectiveWork::Progress;
  const auto steps = [this] { return filled_ + summed_ + published_ + gathered_; };
  const std::uint64_t before = steps();
  bool exchanged = false;
  for (std::uint64_t last = before - 1; last != steps();) {
    last = steps();
    // The oldest piece first: the other ranks wait for it, and it is in the caches.
    if (gathered_ < published_ && all_at(piece(gathered_).small ? &Counters::filled : &Counters::summed, gathered_ + 1))
      gather(gathered_++);
    for (std::uint64_t s = published_; s < summed_ && !exchanges_.empty(); ++s)
      exchanged = exchanges_[slot_of(s)]->advance() == some || exchanged;
    if (published_ < summed_ && (exchanges_.empty() || exchanges_[slot_of(published_)]->advance() == done))
      publish(published_++);
    if (summed_ < filled_ && (piece(summed_).small || all_at(&Counters::filled, summed_ + 1))) sum(summed_++);
    if (first_ && filled_ < gathered_ + memory_.slots() &&
        (filled_ < memory_.slots() || all_at(&Counters::emptied, filled_ - memory_.slots() + 1))) {
      take_next_piece();
      fill(filled_++);
    }
  }
  return exchanged || steps() > before;
}

}  // namespace keelson::comm::detail
