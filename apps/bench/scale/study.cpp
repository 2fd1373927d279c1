#include "apps/bench/scale/study.hpp"

#include <nlohmann/json.hpp>

#include "apps/bench/scale/programs.hpp"
#include "engine/base/error.hpp"

namespace keelson::bench {

std::vector<NamedExchange> exchanges(const Machine& machine, std::size_t bucket_bytes, const ScaleGrid& grid) {
  std::vector<NamedExchange> all;
  ExchangeSettings s;
  if (machine.gradient_copies > 0 || machine.row_copies > 0) {
    s.copies = true;
    all.push_back({"copied", "as \"blocking\", by the published program: one core copies what is sent", s});
    s.copies = false;
  }
  all.push_back({"blocking", "one allreduce of all gradients behind the backward pass", s});
  s.bucket_bytes = bucket_bytes;
  all.push_back({"buckets", "the same in buckets", s});
  s.overlap = true;
  all.push_back({"overlap", "each bucket as soon as it is full, updates as buckets arrive", s});
  if (grid.parts() > 1) {
    s.hide_rows = true;
    all.push_back({"hidden", "rows travel beside the part of the forward pass that does not need them", s});
  }
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

ScalePoint ScaleStudy::simulate(const NamedExchange& exchange, const ScaleGrid& on, double samples) const {
  const int ranks = on.ranks(), in_node = machine.ranks_per_node, summing = ranks / on.stages;
  if (ranks > machine.most_ranks)
    refuse("--ranks {}: the machine '{}' has {} ranks", ranks, machine.name, machine.most_ranks);
  if (ranks > in_node && ranks % in_node != 0)
    refuse("--ranks {}: nodes of the machine '{}' have {} ranks, expected a multiple of that", ranks, machine.name,
           in_node);
  const bool two_level = exchange.settings.algorithm.starts_with("two-level");
  if (two_level && summing > in_node && summing % in_node != 0)
    refuse("--exchange {}: a stage of the grid {} has {} ranks, expected whole nodes of {}; leave {} out of --exchange",
           exchange.name, on.describe(), summing, in_node, exchange.name);
  const StepProfile p = profile.with_samples(samples);
  ReplayJob job{.machine = machine,
                .ranks = ranks,
                .steps = steps,
                .seed = seed,
                .stages = on.stages,
                .programs = grid_programs(p, on, machine, exchange.settings),
                .exchange = exchange.settings};
  // If all ranks that sum fit on one node, there is only one level.
  if (two_level && summing <= in_node) job.machine.ranks_per_node = summing;
  double computing = 0;
  for (const auto& program : job.programs) computing = std::max(computing, program.computing());
  return {.exchange = exchange.name,
          .grid = on.describe(),
          .ranks = ranks,
          .samples = samples,
          .alone = p.seconds(),
          .computing = computing,
          .result = run_replay(program, job)};
}

ScalePoint ScaleStudy::weak(const NamedExchange& exchange, int ranks) const {
  ScalePoint point = simulate(exchange, grid.for_ranks(ranks), 1);
  point.efficiency = point.alone / (grid.replica() * point.result.step);
  return point;
}

ScalePoint ScaleStudy::strong(const NamedExchange& exchange, int ranks, double samples) const {
  const ScaleGrid on = grid.for_ranks(ranks);
  ScalePoint point = simulate(exchange, on, samples / on.data);
  point.efficiency = profile.with_samples(samples).seconds() / (ranks * point.result.step);
  return point;
}

}  // namespace keelson::bench
