#include "apps/bench/networks.hpp"

#include <algorithm>

#include "engine/base/parse_number.hpp"
#include "engine/optim/adam.hpp"
#include "engine/optim/lamb.hpp"
#include "engine/optim/sgd.hpp"
#include "nets/cosmoflow/cosmoflow.hpp"
#include "nets/lstm_lm/lstm_lm.hpp"
#include "nets/mlp/mlp.hpp"
#include "nets/registry.hpp"

namespace keelson::bench {

namespace {

constexpr std::string_view lstm_prefix = "lstm-";

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

Network language_model(const std::string& name, const std::string& size, bool with_output) {
  if (!size.empty()) refuse("--size {}: {} has samples of one size", size, name);
  auto c = nets::lstm_lm_configuration(name.substr(lstm_prefix.size()));
  c.net.logits_output = with_output;
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

constexpr std::string_view dense_network = "mlp";

/// The dense network for tables, with the batch of its paper and the optimizer of keelson-tabular's recipe.
Network mlp_on_tables(const std::string& size) {
  if (!size.empty()) refuse("--size {}: {} has samples of one size", size, dense_network);
  const nets::MlpOptions options;
  Network n{nets::mlp(options)};
  auto sgd = std::make_shared<Sgd>();
  sgd->momentum = 0.9f;
  sgd->weight_decay = 1e-5f;
  n.optimizer = sgd;
  n.batch = 100;
  n.title = fmt::format("{} of {} x {} {}", dense_network, options.layers, options.units, options.activation);
  n.classes = options.outputs;
  return n;
}

/// CosmoFlow's.
std::shared_ptr<const Optimizer> momentum_optimizer() {
  auto sgd = std::make_shared<Sgd>();
  sgd->momentum = 0.9f;
  return sgd;
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

std::shared_ptr<const Optimizer> optimizer_of(const nets::RegisteredNetwork& entry) {
  if (entry.stored_name.starts_with("cosmoflow-")) return momentum_optimizer();
  if (entry.stored_name.starts_with("minerva-")) return std::make_shared<Adam>();
  return entry.loss == "deepcam" ? deepcam_optimizer() : sc18_optimizer();
}

/// The extents that --size gives, or the published ones.
std::vector<std::int64_t> extents_of(const nets::RegisteredNetwork& n, const std::string& size) {
  const Shape& published = n.published_sample;
  std::vector<std::int64_t> extents(published.begin() + 1, published.end());
  if (size.empty()) return extents;
  auto given = extents_of(size);
  const bool cubic = extents.size() == 3;
  if (given.size() != (cubic ? 1 : 2)) {
    if (cubic) refuse("--size {}: the samples of {} are cubic; give their edge", size, n.name);
    refuse("--size {}: the samples of {} have rows and columns; give both: 384x576", size, n.name);
  }
  if (!cubic) return given;
  return given[0] > 0 ? std::vector(3, given[0]) : extents;
}

Network registered(const nets::RegisteredNetwork& entry, const std::string& size) {
  const auto extents = extents_of(entry, size);
  Shape sample{entry.published_sample[0]};
  for (const std::int64_t extent : extents) sample.push_back(extent);
  Network n{entry.make({}, sample)};
  n.optimizer = optimizer_of(entry);
  const bool cubic = extents.size() == 3;
  n.size = cubic ? std::vector{extents[0]} : extents;
  n.title = cubic ? fmt::format("{} {}^3", entry.name, extents[0])
                  : fmt::format("{} {} x {}", entry.name, extents[0], extents[1]);
  for (const Graph::Node& node : n.graph.nodes())
    if (node.name == "y" && node.shape.dtype == DType::s32)
      n.classes = n.graph.nodes()[static_cast<std::size_t>(n.graph.outputs()[0].second)].shape.shape[1];
  return n;
}

constexpr std::string_view mlperf_v0_7 = "mlperf-v0.7";

/// MLPerf HPC v0.7's CosmoFlow.
nets::RegisteredNetwork earlier_mlperf() {
  nets::RegisteredNetwork n = nets::registered_cosmoflow_mlperf();
  n.name = mlperf_v0_7;
  n.make = [](const nets::Settings&, const Shape& sample) {
    return nets::cosmoflow_mlperf({.size = sample[1], .channels = static_cast<int>(sample[0]), .kernel = 2});
  };
  return n;
}

/// "64", or "96x144".
std::string size_text(const Shape& sample) {
  return sample.rank() == 4 ? fmt::format("{}", sample[1]) : fmt::format("{}x{}", sample[1], sample[2]);
}

/// Null for language models.
const nets::RegisteredNetwork* find(const std::string& name) {
  const auto& all = nets::registered_networks();
  const auto found = std::ranges::find(all, name, &nets::RegisteredNetwork::name);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const auto& n : nets::registered_networks()) names.push_back(n.name);
  for (const auto& c : nets::lstm_lm_configurations()) names.push_back(std::string(lstm_prefix) + c.name);
  names.emplace_back(dense_network);
  return names;
}

std::vector<std::string> earlier_network_names() { return {std::string(mlperf_v0_7)}; }

std::string small_size(const std::string& name) {
  const auto* const entry = find(name);
  return entry ? size_text(entry->small_sample) : "";
}

std::string published_size(const std::string& name) {
  const auto* const entry = find(name);
  return entry ? size_text(entry->published_sample) : "";
}

Network make_network(const std::string& name, const std::string& size, bool with_output) {
  if (name.starts_with(lstm_prefix)) return language_model(name, size, with_output);
  if (name == dense_network) return mlp_on_tables(size);
  if (name == mlperf_v0_7) return registered(earlier_mlperf(), size);
  if (const auto* const entry = find(name)) return registered(*entry, size);
  refuse("no network '{}'", name);
}

}  // namespace keelson::bench
