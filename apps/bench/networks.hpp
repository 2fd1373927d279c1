#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/graph/graph.hpp"
#include "engine/optim/optimizer.hpp"

namespace keelson::bench {

/// A network that can be timed by name, as its recipe trains it.
struct Network {
  Graph graph;
  std::shared_ptr<const Optimizer> optimizer;
  std::int64_t batch = 1;             ///< per rank, where the user asks for no other
  std::vector<std::int64_t> size;     ///< one number: edge of cubic samples; two: rows and columns; none: neither
  std::string title;                  ///< "mlperf 128^3"
  std::int64_t classes = 0;           ///< integer inputs are below this
  std::string unit = "sample";        ///< what rates count ...
  std::int64_t units_per_sample = 1;  ///< ... and how many of them a sample has
};

std::vector<std::string> network_names();

/// A size at which every machine gets through a step in a moment, and the published one, as --size takes them; empty:
/// the network has samples of one size.
std::string small_size(const std::string& name);
std::string published_size(const std::string& name);  ///< see small_size()

/// `size`: "128", the edge of cubic samples, or "384x576", rows and columns; empty: as published. Throws InputError
/// for a size that the network has not.
Network make_network(const std::string& name, const std::string& size);

}  // namespace keelson::bench
