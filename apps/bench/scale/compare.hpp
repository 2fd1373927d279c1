#pragma once

#include <string>
#include <vector>

#include "apps/bench/scale/study.hpp"

namespace keelson::bench {

/// The measured and the simulated time of a sum.
struct ComparedSum {
  std::size_t bytes = 0;
  std::string algorithm;
  double measured = 0, simulated = 0;  ///< seconds
};

/// Simulates the sums in `file`, which is the output of keelson-bench allreduce --json: all algorithms except those
/// that work in pieces and that of the MPI library. Of repeated measurements the fastest is used, since nothing
/// disturbs the simulation. Throws InputError if `file` is something else.
std::vector<ComparedSum> compare_with(const std::string& file, const Machine& machine,
                                      const std::filesystem::path& program);

}  // namespace keelson::bench
