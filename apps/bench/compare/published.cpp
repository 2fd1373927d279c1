#include "apps/bench/compare/published.hpp"

#include <nlohmann/json.hpp>

#include "published_json.hpp"

namespace keelson::bench::comparison {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PublishedFigure, device, machine, devices, net, size, quantity, value, precision,
                                   what, source, where)

const std::vector<PublishedFigure>& published_figures() {
  static const auto figures = nlohmann::json::parse(published_json).at("figures").get<std::vector<PublishedFigure>>();
  return figures;
}

}  // namespace keelson::bench::comparison
