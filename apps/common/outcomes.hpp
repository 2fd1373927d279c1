#pragma once

#include <string>
#include <vector>

#include "comm/communicators.hpp"

namespace keelson::app {

struct RankOutcome {
  int rank = 0;
  std::string host;
  comm::Outcome outcome;
};

struct Summary {
  int exit_code = 0;
  std::string text;  ///< lines for stderr; empty if no rank has anything to say
};

/// What to tell the user about the end of a run of `size` ranks: what all of them say alike once and without names,
/// else each different message with the first rank that says it. The exit code is that of the first rank with a
/// message, else the highest.
Summary describe_outcomes(const std::string& program, const std::vector<RankOutcome>& outcomes, int size);

/// The message for std::bad_alloc: what this process holds, what the node has, what to do.
std::string out_of_memory();

}  // namespace keelson::app
