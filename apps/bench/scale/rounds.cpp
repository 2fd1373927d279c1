#include "apps/bench/scale/rounds.hpp"

#include "comm/allreduce/schedule.hpp"
#include "engine/base/error.hpp"

namespace keelson::bench {
namespace {

using comm::detail::Schedule;

/// Bytes of part `i` of `parts`: whole floats, parts as equal as possible.
std::size_t part(std::size_t bytes, int parts, int i) {
  const std::size_t floats = bytes / 4, n = static_cast<std::size_t>(parts), k = static_cast<std::size_t>(i);
  return 4 * ((k + 1) * floats / n - k * floats / n);
}

/// `schedule` is for the ranks `first`, `first + stride`, ...
void append(std::vector<Round>& rounds, const Schedule& schedule, int first, int stride, std::size_t bytes) {
  const auto size = [&](std::size_t begin, std::size_t end) {
    return 4 * (schedule.begin_of(end, bytes / 4) - schedule.begin_of(begin, bytes / 4));
  };
  for (const auto& step : schedule.steps) {
    Round r{.sent = size(step.send_begin, step.send_end),
            .received = size(step.receive_begin, step.receive_end),
            .add = step.adds};
    if (r.sent > 0) r.to = first + step.send_to * stride;
    if (r.received > 0) r.from = first + step.receive_from * stride;
    rounds.push_back(r);
  }
}

std::vector<Round> two_level(bool by_ring, int rank, int ranks, int ranks_per_node, std::size_t bytes) {
  std::vector<Round> rounds;
  const int local = rank % ranks_per_node, node = rank / ranks_per_node, nodes = ranks / ranks_per_node;
  const std::size_t stripe = part(bytes, ranks_per_node, local);
  const auto neighbor = [&](int distance) { return (local + ranks_per_node + distance) % ranks_per_node; };
  const auto world = [&](int i) { return node * ranks_per_node + i; };
  const auto stripe_of = [&](int i) { return part(bytes, ranks_per_node, i); };
  for (int s = 1; s < ranks_per_node; ++s)
    rounds.push_back({world(neighbor(s)), stripe_of(neighbor(s)), world(neighbor(-s)), stripe, true});
  const Schedule between = by_ring ? comm::detail::make_ring(node, nodes) : comm::detail::make_halving(node, nodes);
  append(rounds, between, local, ranks_per_node, stripe);
  for (int s = 1; s < ranks_per_node; ++s)
    rounds.push_back({world(neighbor(s)), stripe, world(neighbor(-s)), stripe_of(neighbor(-s)), false});
  return rounds;
}

}  // namespace

std::vector<Round> make_rounds(const std::string& algorithm, int rank, int ranks, int ranks_per_node,
                               std::size_t bytes) {
  if (algorithm.starts_with("two-level"))
    return two_level(algorithm == "two-level-ring", rank, ranks, ranks_per_node, bytes);
  std::vector<Round> rounds;
  if (algorithm == "ring")
    append(rounds, comm::detail::make_ring(rank, ranks), 0, 1, bytes);
  else if (algorithm == "halving")
    append(rounds, comm::detail::make_halving(rank, ranks), 0, 1, bytes);
  else if (algorithm == "doubling")
    append(rounds, comm::detail::make_doubling(rank, ranks), 0, 1, bytes);
  else
    refuse("unknown algorithm '{}', expected ring, halving, doubling, two-level or two-level-ring", algorithm);
  return rounds;
}

}  // namespace keelson::bench
