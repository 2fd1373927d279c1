#pragma once

#include <string>
#include <vector>

#include "apps/bench/problem.hpp"
#include "apps/bench/timing.hpp"
#include "engine/ops/context.hpp"

namespace keelson::bench {

struct Repeats {
  int timed = 20, warmup = 3;
};

/// One verb of one op on one context.
struct VerbTime {
  std::string verb;  ///< "forward", "backward data", "backward weights"; "backward" of ops without weights
  std::string backend, kernel;
  ops::Cost cost;
  Timing seconds;
};

/// Makes the primitive and times each of its verbs on made-up numbers, in the layouts that the primitive asks for; each
/// call is finished before the next begins. Empty if no backend of the context makes the primitive; then `why` holds
/// the reason.
std::vector<VerbTime> time_problem(Context& context, const Problem& problem, const Repeats& repeats, std::string* why);

}  // namespace keelson::bench
