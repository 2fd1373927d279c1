#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/graph/graph.hpp"
#include "engine/optim/optimizer.hpp"

namespace keelson::bench {

/// A network that can be timed, with the optimizer and batch of its recipe.
struct Network {
  Graph graph;
  std::shared_ptr<const Optimizer> optimizer;
  std::int64_t batch = 1;             ///< samples per rank, unless the user gives another number
  std::vector<std::int64_t> size;     ///< one number: edge of cubic samples; two: rows and columns; none: neither
  std::string title;                  ///< "mlperf 128^3"
  std::int64_t classes = 0;           ///< integer inputs are below this
  std::string unit = "sample";        ///< the unit in which rates count ...
  std::int64_t units_per_sample = 1;  ///< ... and the number of units in a sample
};

std::vector<std::string> network_names();
/// Networks of earlier rounds of MLPerf, to compare with figures of their time.
std::vector<std::string> earlier_network_names();

/// A size at which a step takes every machine only a moment, as --size accepts it; empty: the network has samples of
/// one size.
std::string small_size(const std::string& name);
std::string published_size(const std::string& name);  ///< the published size, as small_size()

/// `size`: "128", the edge of cubic samples, or "384x576", rows and columns; empty: as published. Throws InputError
/// for a size that the network does not have. with_output: language models have the output "logits", which costs their
/// memory in training; all other networks always have an output.
Network make_network(const std::string& name, const std::string& size, bool with_output = false);

}  // namespace keelson::bench
