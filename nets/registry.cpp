#include "nets/registry.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "nets/cosmoflow/cosmoflow.hpp"
#include "nets/deeplab/deepcam.hpp"
#include "nets/deeplab/deeplab_sc18.hpp"
#include "nets/minerva/minerva.hpp"
#include "nets/tiramisu/tiramisu.hpp"

namespace keelson::nets {

const std::vector<RegisteredNetwork>& registered_networks() {
  static const std::vector<RegisteredNetwork> all{
      registered_cosmoflow_mlperf(), registered_cosmoflow_paper(), registered_deepcam(),
      registered_deeplab_sc18(),     registered_tiramisu(),        registered_minerva_epsilon(),
      registered_minerva_evolved(),
  };
  return all;
}

std::vector<RegisteredNetwork> networks_of_family(std::string_view family) {
  std::vector<RegisteredNetwork> found;
  std::ranges::copy_if(registered_networks(), std::back_inserter(found),
                       [&](const RegisteredNetwork& n) { return n.stored_name.starts_with(family); });
  return found;
}

const RegisteredNetwork& find_stored_network(std::string_view stored_name) {
  const auto& all = registered_networks();
  const auto found = std::ranges::find(all, stored_name, &RegisteredNetwork::stored_name);
  if (found != all.end()) return *found;
  std::vector<std::string> names;
  for (const RegisteredNetwork& n : all) names.push_back(n.stored_name);
  refuse("there is no network '{}'; expected one of {}", printable(std::string(stored_name)), fmt::join(names, ", "));
}

}  // namespace keelson::nets
