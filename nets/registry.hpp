#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.hpp"
#include "nets/settings.hpp"

/// The networks that programs, Python, benchmarks and tests find by name. A new network is a line in registry.cpp.
namespace keelson::nets {

/// A network as the registry knows it.
struct RegisteredNetwork {
  std::string name;  ///< of keelson-bench: "deeplab-sc18"
  std::string
      stored_name;    ///< in checkpoints: the family, and the name of the program's option --net: "climate-deeplab"
  std::string title;  ///< for people: "SC18's DeepLabv3+"
  std::string loss;   ///< of climate networks: the published loss, as climate_loss() names it
  /// The network with these settings, for samples of this shape of its input "x" (channels, extents...). Throws
  /// InputError for settings and shapes that do not fit.
  std::function<Graph(const Settings&, const Shape& sample)> make;
  /// Of climate networks: what rows and columns have to be multiples of.
  std::function<std::int64_t(const Settings&)> multiple = [](const Settings&) -> std::int64_t { return 1; };
  Shape published_sample;  ///< as published
  Shape small_sample;      ///< of which any machine makes a training step in a moment
  Shape tiny_sample;       ///< for tests, with tiny_settings: a network of a few thousand parameters
  Settings tiny_settings;  ///< see tiny_sample

  /// The name of the program's option --net: "deeplab".
  std::string program_name() const { return stored_name.substr(stored_name.find('-') + 1); }
};

/// All networks, in the order in which lists show them.
const std::vector<RegisteredNetwork>& registered_networks();

/// Those whose stored name begins with this text: "climate-".
std::vector<RegisteredNetwork> networks_of_family(std::string_view family);

/// The network of this name in checkpoints. Throws InputError, naming all, for another name.
const RegisteredNetwork& find_stored_network(std::string_view stored_name);

}  // namespace keelson::nets
