#pragma once

#include <string>
#include <vector>

#include "engine/graph/graph.hpp"

namespace keelson::bench {

/// The networks that can be timed by name: "mlperf", "paper".
std::vector<std::string> network_names();

/// `size` is the edge of the cubic input.
Graph make_network(const std::string& name, std::int64_t size);

}  // namespace keelson::bench
