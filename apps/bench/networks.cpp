#include "apps/bench/networks.hpp"

#include <algorithm>
#include <array>

#include "engine/base/parse_number.hpp"
#include "engine/optim/adam.hpp"
#include "engine/optim/lamb.hpp"
#include "engine/optim/sgd.hpp"
#include "nets/cosmoflow/cosmoflow.hpp"
#include "nets/deeplab/deepcam.hpp"
#include "nets/deeplab/deeplab_sc18.hpp"
#include "nets/lstm_lm/lstm_lm.hpp"
#include "nets/tiramisu/tiramisu.hpp"

namespace keelson::bench {

namespace {

constexpr std::string_view lstm_prefix = "lstm-";
constexpr std::array<std::string_view, 3> climate_networks = {"deepcam", "deeplab-sc18", "tiramisu"};

/// The numbers of "128" or "384x576".
std::vector<std::int64_t> extents_of(const std::string& size) {
  std::vector<std::int64_t> extents;
  for (std::size_t begin = 0; begin <= size.size();) {
    const std::size_t end = std::min(size.find('x', begin), size.size());
    const auto n = parse_number<std::int64_t>(std::string_view(size).substr(begin, end - begin));
    if (!n || *n < 0) refuse("--size {}: expected an edge (128), or rows and columns (384x576)", size);
    extents.push_back(*n);
    begin = end + 1;
  }
  return extents;
}

Network cosmoflow(const std::string& name, const std::string& size) {
  const auto given = size.empty() ? std::vector<std::int64_t>{0} : extents_of(size);
  if (given.size() != 1) refuse("--size {}: the samples of {} are cubic; give their edge", size, name);
  const std::int64_t edge = given[0] > 0 ? given[0] : 128;
  Network n{name == "paper" ? nets::cosmoflow_paper({.size = edge, .channels = 1, .targets = 3})
                            : nets::cosmoflow_mlperf({.size = edge})};
  auto optimizer = std::make_shared<Sgd>();
  optimizer->momentum = 0.9f;
  n.optimizer = optimizer;
  n.size = {edge};
  n.title = fmt::format("{} {}^3", name, edge);
  return n;
}

Network language_model(const std::string& name, const std::string& size) {
  if (!size.empty()) refuse("--size {}: {} has samples of one size", size, name);
  const auto c = nets::lstm_lm_configuration(name.substr(lstm_prefix.size()));
  Network n{nets::lstm_lm(c.net)};
  auto optimizer = std::make_shared<Sgd>();
  optimizer->clip_norm = c.clip_norm;
  n.optimizer = optimizer;
  n.batch = c.batch;
  n.title = fmt::format("{}, unrolled over {}", name, c.net.unroll);
  n.classes = c.net.vocabulary;
  n.unit = "word";
  n.units_per_sample = c.net.unroll;
  return n;
}

Graph climate_graph(const std::string& name, std::int64_t rows, std::int64_t columns) {
  if (name == "deepcam") return nets::deepcam({.rows = rows, .columns = columns});
  if (name == "deeplab-sc18") return nets::deeplab_sc18({.rows = rows, .columns = columns});
  return nets::tiramisu({.rows = rows, .columns = columns});
}

/// LARC-Adam of SC18.
std::shared_ptr<const Optimizer> sc18_optimizer() {
  auto adam = std::make_shared<Adam>();
  adam->larc = {.mode = ops::LarcMode::clip, .eta = 0.002f, .floor = 1.0f / 16000, .relative = true};
  return adam;
}

/// LAMB of MLPerf HPC: weight decay on all parameters.
std::shared_ptr<const Optimizer> deepcam_optimizer() {
  auto lamb = std::make_shared<Lamb>();
  lamb->adapt_vectors = true;
  return lamb;
}

Network climate(const std::string& name, const std::string& size) {
  const auto extents = size.empty() ? std::vector<std::int64_t>{768, 1152} : extents_of(size);
  if (extents.size() != 2) refuse("--size {}: the samples of {} have rows and columns; give both: 384x576", size, name);
  const std::int64_t rows = extents[0], columns = extents[1];
  Network n{climate_graph(name, rows, columns)};
  n.optimizer = name == "deepcam" ? deepcam_optimizer() : sc18_optimizer();
  n.size = extents;
  n.title = fmt::format("{} {} x {}", name, rows, columns);
  n.classes = 3;
  return n;
}

}  // namespace

std::vector<std::string> network_names() {
  std::vector<std::string> names{"mlperf", "paper"};
  names.insert(names.end(), climate_networks.begin(), climate_networks.end());
  for (const auto& c : nets::lstm_lm_configurations()) names.push_back(std::string(lstm_prefix) + c.name);
  return names;
}

std::string small_size(const std::string& name) {
  if (name.starts_with(lstm_prefix)) return "";
  if (name == "mlperf") return "64";
  if (name == "paper") return "96";
  return "96x144";
}

std::string published_size(const std::string& name) {
  if (name.starts_with(lstm_prefix)) return "";
  return name == "mlperf" || name == "paper" ? "128" : "768x1152";
}

Network make_network(const std::string& name, const std::string& size) {
  if (name.starts_with(lstm_prefix)) return language_model(name, size);
  if (name == "mlperf" || name == "paper") return cosmoflow(name, size);
  if (std::ranges::find(climate_networks, name) != climate_networks.end()) return climate(name, size);
  refuse("no network '{}'", name);
}

}  // namespace keelson::bench
