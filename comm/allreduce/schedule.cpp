#include "comm/allreduce/schedule.hpp"

#include <bit>

namespace keelson::comm::detail {
namespace {

using Sends = ExchangeStep::Sends;

/// The exchange is among a power of two of ranks, the largest that is possible. Of the first 2 * extra ranks, only the
/// odd ranks take part, each also for the even rank before it.
struct Participants {
  explicit Participants(int ranks)
      : count(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))), extra(ranks - count) {}

  bool stands_aside(int rank) const { return rank < 2 * extra && rank % 2 == 0; }
  bool acts_for_two(int rank) const { return rank < 2 * extra && rank % 2 == 1; }
  int number_of(int rank) const { return rank < 2 * extra ? rank / 2 : rank - extra; }
  int rank_of(int number) const { return number < extra ? 2 * number + 1 : number + extra; }

  int count, extra;
};

/// At the end an odd rank sends the sums to its even neighbor.
void append_return(Schedule& schedule, const Participants& all, int rank) {
  if (all.acts_for_two(rank))
    schedule.steps.push_back({.send_to = rank - 1, .send_end = schedule.blocks, .sends = Sends::copies});
  if (all.stands_aside(rank)) schedule.steps.push_back({.receive_from = rank + 1, .receive_end = schedule.blocks});
}

}  // namespace

Schedule make_ring(int rank, int ranks) {
  Schedule schedule{static_cast<std::size_t>(ranks), {}};
  const auto block = [&](int b) { return static_cast<std::size_t>((b % ranks + ranks) % ranks); };
  const auto append = [&](int sent, int received, bool adds, Sends sends) {
    schedule.steps.push_back({(rank + 1) % ranks, (rank + ranks - 1) % ranks, block(sent), block(sent) + 1,
                              block(received), block(received) + 1, adds, sends});
  };
  for (int s = 0; s + 1 < ranks; ++s) append(rank - s, rank - s - 1, true, Sends::terms);
  for (int s = 0; s + 1 < ranks; ++s) append(rank + 1 - s, rank - s, false, s == 0 ? Sends::sums : Sends::copies);
  return schedule;
}

Schedule make_halving(int rank, int ranks) {
  const Participants all(ranks);
  const auto blocks = static_cast<std::size_t>(all.count);
  Schedule schedule{blocks, {}};
  // Each of two neighbors adds half of the array. The even rank then sends its half to the other.
  if (all.stands_aside(rank)) {
    const int other = rank + 1;
    schedule.steps.push_back({other, other, blocks / 2, blocks, 0, blocks / 2, true, Sends::terms});
    schedule.steps.push_back({.send_to = other, .send_end = blocks / 2, .sends = Sends::terms});
  }
  if (all.acts_for_two(rank)) {
    const int other = rank - 1;
    schedule.steps.push_back({other, other, 0, blocks / 2, blocks / 2, blocks, true, Sends::terms});
    schedule.steps.push_back({.receive_from = other, .receive_end = blocks / 2});
  }
  if (!all.stands_aside(rank)) {
    const int me = all.number_of(rank);
    std::vector<ExchangeStep> back;
    std::size_t begin = 0, end = blocks;
    for (int distance = 1; distance < all.count; distance *= 2) {
      const int partner = all.rank_of(me ^ distance);
      const std::size_t middle = (begin + end) / 2;
      const bool keeps_upper = (me & distance) != 0;
      const std::size_t keep_begin = keeps_upper ? middle : begin, keep_end = keeps_upper ? end : middle;
      const std::size_t give_begin = keeps_upper ? begin : middle, give_end = keeps_upper ? middle : end;
      schedule.steps.push_back({partner, partner, give_begin, give_end, keep_begin, keep_end, true, Sends::terms});
      back.push_back({partner, partner, keep_begin, keep_end, give_begin, give_end, false, Sends::copies});
      begin = keep_begin, end = keep_end;
    }
    if (!back.empty()) back.back().sends = Sends::sums;
    schedule.steps.insert(schedule.steps.end(), back.rbegin(), back.rend());
  }
  append_return(schedule, all, rank);
  return schedule;
}

Schedule make_doubling(int rank, int ranks) {
  const Participants all(ranks);
  Schedule schedule;
  if (all.stands_aside(rank)) schedule.steps.push_back({.send_to = rank + 1, .send_end = 1});
  if (all.acts_for_two(rank)) schedule.steps.push_back({.receive_from = rank - 1, .receive_end = 1, .adds = true});
  for (int distance = 1; distance < all.count && !all.stands_aside(rank); distance *= 2) {
    const int partner = all.rank_of(all.number_of(rank) ^ distance);
    schedule.steps.push_back({partner, partner, 0, 1, 0, 1, true, Sends::terms});
  }
  append_return(schedule, all, rank);
  return schedule;
}

}  // namespace keelson::comm::detail
