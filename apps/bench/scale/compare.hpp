#pragma once

#include <string>
#include <vector>

#include "apps/bench/scale/study.hpp"

namespace keelson::bench {

/// A sum that was timed, and the same one simulated.
struct ComparedSum {
  std::size_t bytes = 0;
  std::string algorithm;
  double measured = 0, simulated = 0;  ///< seconds
};

/// Simulates what is in `file`, which keelson-bench allreduce --json has printed: all algorithms but those in pieces
/// and the MPI library's. The fastest of the repeated measurements counts: nothing disturbs the simulation. Throws
/// InputError for another file.
std::vector<ComparedSum> compare_with(const std::string& file, const Machine& machine,
                                      const std::filesystem::path& program);

}  // namespace keelson::bench
