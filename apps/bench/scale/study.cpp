#include "apps/bench/scale/study.hpp"

#include <nlohmann/json.hpp>

#include "engine/base/error.hpp"

namespace keelson::bench {

std::vector<NamedExchange> exchanges(const Machine& machine, std::size_t bucket_bytes) {
  std::vector<NamedExchange> all;
  ExchangeSettings s;
  all.push_back({"blocking", "one allreduce of all gradients behind the backward pass", s});
  s.bucket_bytes = bucket_bytes;
  all.push_back({"buckets", "the same in buckets", s});
  s.overlap = true;
  all.push_back({"overlap", "each bucket as soon as it is full, updates as buckets arrive", s});
  if (machine.ranks_per_node > 1) {
    s.algorithm = "two-level";
    all.push_back({"two-level", "first within nodes, then stripes between nodes", s});
  }
  s.compress = true;
  all.push_back({"compressed", "16 bits for each number on the wire", s});
  return all;
}

std::optional<Published> published_on(const Machine& machine) {
  if (machine.name == "cori") return Published{8192, 0.77, "CosmoFlow, Mathuriya et al., SC 2018, arXiv:1808.04728"};
  if (machine.name == "summit")
    return Published{27360, 0.907, "DeepLabv3+ on climate data, Kurth et al., SC 2018, arXiv:1810.01993"};
  return std::nullopt;
}

ScalePoint ScaleStudy::simulate(const NamedExchange& exchange, int ranks, double samples) const {
  if (ranks > machine.most_ranks)
    refuse("--ranks {}: the machine '{}' has {} ranks", ranks, machine.name, machine.most_ranks);
  if (ranks > machine.ranks_per_node && ranks % machine.ranks_per_node != 0)
    refuse("--ranks {}: nodes of the machine '{}' have {} ranks, expected a multiple of that", ranks, machine.name,
           machine.ranks_per_node);
  const StepProfile p = profile.with_samples(samples);
  ReplayJob job{.machine = machine,
                .ranks = ranks,
                .steps = steps,
                .seed = seed,
                .forward = p.forward,
                .backward = p.backward,
                .update = p.update,
                .buckets = {},
                .exchange = exchange.settings};
  // If all ranks fit on one node, there is only one level.
  if (ranks <= machine.ranks_per_node && job.exchange.algorithm == "two-level") job.machine.ranks_per_node = ranks;
  for (const auto& b : p.buckets(exchange.settings.bucket_bytes)) job.buckets.push_back({b.bytes, b.ready});
  return {exchange.name, ranks, samples, p.seconds(), run_replay(program, job)};
}

ScalePoint ScaleStudy::weak(const NamedExchange& exchange, int ranks) const {
  ScalePoint point = simulate(exchange, ranks, 1);
  point.efficiency = point.alone / point.result.step;
  return point;
}

ScalePoint ScaleStudy::strong(const NamedExchange& exchange, int ranks, double samples) const {
  ScalePoint point = simulate(exchange, ranks, samples / ranks);
  point.efficiency = profile.with_samples(samples).seconds() / (ranks * point.result.step);
  return point;
}

}  // namespace keelson::bench
