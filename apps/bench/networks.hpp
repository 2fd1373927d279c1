#pragma once

#include <string>
#include <vector>

#include "engine/graph/graph.hpp"
#include "engine/optim/sgd.hpp"

namespace keelson::bench {

/// A network that can be timed by name, as its recipe trains it.
struct Network {
  Graph graph;
  Sgd optimizer;
  std::int64_t batch = 1;             ///< per rank, where the user asks for no other
  std::int64_t size = 0;              ///< edge of the samples; 0: they are not cubic
  std::string title;                  ///< "mlperf 128^3"
  std::int64_t classes = 0;           ///< integer inputs are below this
  std::string unit = "sample";        ///< what rates count ...
  std::int64_t units_per_sample = 1;  ///< ... and how many of them a sample has
};

std::vector<std::string> network_names();

/// `size`: edge of cubic samples; 0: 128. Throws InputError where the network has none.
Network make_network(const std::string& name, std::int64_t size);

}  // namespace keelson::bench
