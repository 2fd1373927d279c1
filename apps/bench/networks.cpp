#include "apps/bench/networks.hpp"

#include "nets/cosmoflow/cosmoflow.hpp"
#include "nets/lstm_lm/lstm_lm.hpp"

namespace keelson::bench {

namespace {

constexpr std::string_view lstm_prefix = "lstm-";

Network cosmoflow(const std::string& name, std::int64_t size) {
  const std::int64_t edge = size > 0 ? size : 128;
  Network n{name == "paper" ? nets::cosmoflow_paper({.size = edge, .channels = 1, .targets = 3})
                            : nets::cosmoflow_mlperf({.size = edge})};
  n.optimizer.momentum = 0.9f;
  n.size = edge;
  n.title = fmt::format("{} {}^3", name, edge);
  return n;
}

Network language_model(const std::string& name, std::int64_t size) {
  if (size > 0) refuse("--size {}: {} has no cubic samples", size, name);
  const auto c = nets::lstm_lm_configuration(name.substr(lstm_prefix.size()));
  Network n{nets::lstm_lm(c.net)};
  n.optimizer.clip_norm = c.clip_norm;
  n.batch = c.batch;
  n.title = fmt::format("{}, unrolled over {}", name, c.net.unroll);
  n.classes = c.net.vocabulary;
  n.unit = "word";
  n.units_per_sample = c.net.unroll;
  return n;
}

}  // namespace

std::vector<std::string> network_names() {
  std::vector<std::string> names{"mlperf", "paper"};
  for (const auto& c : nets::lstm_lm_configurations()) names.push_back(std::string(lstm_prefix) + c.name);
  return names;
}

Network make_network(const std::string& name, std::int64_t size) {
  if (name.starts_with(lstm_prefix)) return language_model(name, size);
  if (name == "mlperf" || name == "paper") return cosmoflow(name, size);
  refuse("no network '{}'", name);
}

}  // namespace keelson::bench
