#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/tabular/data/tabular_data.hpp"
#include "engine/base/error.hpp"

namespace keelson::tabular {

std::string Scaling::to_json() const {
  return nlohmann::ordered_json{{"kind", kind},
                                {"features", features},
                                {"targets", targets},
                                {"x", {{"means", means}, {"deviations", deviations}, {"logs", logs}}},
                                {"y", {{"means", target_means}, {"deviations", target_deviations}}},
                                {"classes", classes},
                                {"outputs", outputs},
                                {"layout", "none"}}
      .dump();
}

Scaling Scaling::parse(const std::string& json, const std::string& source) try {
  const auto j = nlohmann::json::parse(json);
  Scaling s;
  s.kind = j.at("kind");
  s.features = j.at("features").get<std::vector<std::string>>();
  s.targets = j.at("targets").get<std::vector<std::string>>();
  s.means = j.at("x").at("means").get<std::vector<double>>();
  s.deviations = j.at("x").at("deviations").get<std::vector<double>>();
  s.logs = j.at("x").at("logs").get<std::vector<bool>>();
  s.target_means = j.at("y").at("means").get<std::vector<double>>();
  s.target_deviations = j.at("y").at("deviations").get<std::vector<double>>();
  s.classes = j.at("classes").get<std::vector<std::string>>();
  s.outputs = j.at("outputs");
  const std::size_t n = s.features.size();
  if (n == 0 || s.means.size() != n || s.deviations.size() != n || s.logs.size() != n || s.outputs < 1)
    refuse("{}: the text 'scaling' has lists of different lengths", source);
  return s;
} catch (const nlohmann::json::exception& error) {
  refuse("{}: the text 'scaling' cannot be read ({})", source, error.what());
}

}  // namespace keelson::tabular
