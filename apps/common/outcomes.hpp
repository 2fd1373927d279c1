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

/// The message to the user about the end of a run of `size` ranks. A message of all ranks is printed once, without
/// names; otherwise each different message is printed with the first rank that has it. The exit code is that of the
/// first rank with a message, else the highest.
Summary describe_outcomes(const std::string& program, const std::vector<RankOutcome>& outcomes, int size);

/// The message for std::bad_alloc: how much memory this process has, how much the node has, and what to try.
std::string out_of_memory();

}  // namespace keelson::app
