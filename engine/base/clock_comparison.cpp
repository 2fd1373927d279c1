#include "engine/base/clock_comparison.hpp"

#include <limits>

namespace keelson {
namespace {

constexpr int rounds = 32;

void answer(Communicator& ranks, int peer) {
  TraceTime question = 0, now = 0;
  const auto receive = ranks.make_receive(&question, sizeof question, peer, "a comparison of clocks");
  const auto send = ranks.make_send(&now, sizeof now, peer, "a comparison of clocks");
  for (int i = 0; i < rounds; ++i) {
    receive->start();
    receive->wait();
    now = trace_now();
    send->start();
    send->wait();
  }
}

ClockComparison ask(Communicator& ranks) {
  TraceTime question = 0, theirs = 0, shortest = std::numeric_limits<TraceTime>::max();
  const auto send = ranks.make_send(&question, sizeof question, 0, "a comparison of clocks");
  const auto receive = ranks.make_receive(&theirs, sizeof theirs, 0, "a comparison of clocks");
  ClockComparison best;
  for (int i = 0; i < rounds; ++i) {
    const TraceTime asked = trace_now();
    receive->start();
    send->start();
    send->wait();
    receive->wait();
    const TraceTime answered = trace_now(), trip = answered - asked;
    if (trip >= shortest) continue;
    shortest = trip;
    const TraceTime middle = asked + trip / 2;
    best = {middle, theirs - middle, (trip + 1) / 2};
  }
  return best;
}

}  // namespace

ClockComparison compare_clocks(Communicator& all) {
  Communicator& ranks = all.on_host();
  if (ranks.rank() != 0) return ask(ranks);
  for (int peer = 1; peer < ranks.size(); ++peer) answer(ranks, peer);
  return {.at = trace_now()};
}

TraceTime on_first_ranks_clock(TraceTime time, const ClockComparison& first, const ClockComparison& last) {
  if (time <= first.at || last.at <= first.at) return time + first.offset;
  if (time >= last.at) return time + last.offset;
  const double part = static_cast<double>(time - first.at) / static_cast<double>(last.at - first.at);
  return time + first.offset + static_cast<TraceTime>(part * static_cast<double>(last.offset - first.offset));
}

}  // namespace keelson
