#include "apps/bench/networks.hpp"

#include "nets/cosmoflow/cosmoflow.hpp"

namespace keelson::bench {

std::vector<std::string> network_names() { return {"mlperf", "paper"}; }

Graph make_network(const std::string& name, std::int64_t size) {
  if (name == "mlperf") return nets::cosmoflow_mlperf({.size = size});
  if (name == "paper") return nets::cosmoflow_paper({.size = size, .channels = 1, .targets = 3});
  refuse("no network '{}'", name);
}

}  // namespace keelson::bench
