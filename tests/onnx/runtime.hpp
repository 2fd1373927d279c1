#pragma once

#include <string>
#include <vector>

#include "engine/graph/graph.hpp"
#include "engine/graph/parameters.hpp"

namespace keelson::testing {

/// A network whose exported file is run elsewhere.
struct ExportedCase {
  std::string name;
  Graph graph;
  std::int64_t steps = 1;         ///< calls one after the other, each with the states of the one before
  int largest_integer = 2;        ///< of integer inputs
  std::int64_t largest_file = 0;  ///< as OnnxOptions; 0: the default
};

/// Gives all parameters that would begin constant, and the running statistics, values that are not: each has to be in
/// its place. No plan may have made the parameters yet.
void set_uneven_values(Parameters& parameters);

/// Exports each network, computes its outputs by an executor for batches of 1 and 3 samples, and lets onnxruntime
/// compute them from the file: differences must be below 1e-5 of an output's largest element. Next states are compared,
/// too. Where the Python package onnx is there, its checker reads each file. The test ends as skipped where Python has
/// no onnxruntime.
void expect_same_elsewhere(const std::vector<ExportedCase>& cases);

}  // namespace keelson::testing
