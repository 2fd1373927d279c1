#include "apps/cosmoflow/task.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "engine/base/error.hpp"
#include "nets/cosmoflow/cosmoflow.hpp"

namespace keelson::cosmoflow {
namespace {

/// The channel of redshift 0 if the files name their redshifts; else the first channel.
int channel_today(const UniverseDataset& data) {
  const auto z = data.redshifts();
  return static_cast<int>(std::ranges::min_element(z) - z.begin());
}

struct ZScore {
  std::vector<float> mean, std;
};

/// Mean and standard deviation of a uniform distribution over each parameter's range, as in the paper's code.
ZScore paper_scaling(const std::vector<UniverseParameter>& parameters) {
  ZScore z;
  for (const auto& p : parameters) {
    z.mean.push_back(static_cast<float>((p.minimum + p.maximum) / 2));
    z.std.push_back(static_cast<float>((p.maximum - p.minimum) / std::sqrt(12.0)));
  }
  return z;
}

}  // namespace

std::unique_ptr<UniverseDataset> open_data(const RunOptions& o, const std::string& path, Communicator& world,
                                           std::int64_t skip_broken, std::shared_ptr<const FileCopies> copies) {
  const bool paper = o.net == "paper";
  UniverseOptions u;
  u.size = o.size;
  u.channels = o.channels;
  u.skip_broken = skip_broken;
  u.copies = std::move(copies);
  const auto normalise = normalisation_name(o);
  u.normalisation = normalise == "log1p"  ? Normalisation::log1p
                    : normalise == "mean" ? Normalisation::mean
                                          : Normalisation::none;
  if (!paper) return std::make_unique<UniverseDataset>(path, u, &world);
  u.targets = {0, 1, 2};
  u.physical_targets =
      true;  // the network's loss and metric are relative to physical targets; refused if their range is unknown
  const UniverseDataset probe(path, u, &world);  // only for facts about the files
  if (u.channels.empty()) u.channels = {channel_today(probe)};
  const auto z = paper_scaling(probe.parameters());
  u.target_mean = z.mean;
  u.target_std = z.std;
  return std::make_unique<UniverseDataset>(probe, u);
}

std::string ranges_of(const UniverseDataset& data) {
  std::vector<std::string> all;
  for (const auto& p : data.parameters())
    if (p.has_range) all.push_back(fmt::format("{} {} {}", p.name, p.minimum, p.maximum));
  return fmt::format("{}", fmt::join(all, ", "));
}

void require_ranges(const UniverseDataset& data, const std::string& expected, const std::string& source) {
  const auto found = ranges_of(data);
  if (expected.empty() || found == expected) return;
  if (found.empty())
    refuse(
        "{}: lacks the attributes parameter_minimum and parameter_maximum, which {} has. Expected the same ranges of "
        "the targets; remake the file, or add them (docs/file-formats.md shows how)",
        data.file_of(0), source);
  const auto entries = [](const std::string& text) {
    std::vector<std::string> all;
    std::istringstream in(text);
    for (std::string entry; std::getline(in, entry, ',');)
      all.push_back(entry.substr(std::min(entry.find_first_not_of(' '), entry.size())));
    return all;
  };
  const auto here = entries(found), there = entries(expected);
  const auto [mine, other] = std::ranges::mismatch(here, there);
  refuse(
      "{}: the attributes parameter_names, parameter_minimum and parameter_maximum say '{}', but {} has '{}'. Expected "
      "the same ranges of the targets; move or remake the file that is wrong",
      data.file_of(0), mine == here.end() ? "" : *mine, source, other == there.end() ? "" : *other);
}

void require_ranges(const UniverseDataset& data, const CheckpointReader& checkpoint) {
  const auto& config = checkpoint.state().config;
  if (const auto found = config.find(ranges_key); found != config.end())
    require_ranges(data, found->second, "the training data of " + checkpoint.path().string());
}

void check_finite(const UniverseDataset& data, Communicator& world) {
  if (!data.stores_floating_point()) return;
  std::vector<std::vector<float>> fields;
  std::vector<void*> dst;
  for (const auto& f : data.fields())
    dst.push_back(fields.emplace_back(static_cast<std::size_t>(f.shape.elements())).data());
  std::string problem;
  try {
    for (std::int64_t i = world.rank(); i < data.size(); i += world.size()) data.read(i, dst.data());
  } catch (const InputError& e) {
    problem = e.what();
  }
  for (const auto& text : world.allgather(problem))
    if (!text.empty()) throw InputError(text);
}

std::string network_name(const RunOptions& o) { return std::string(family.prefix) + o.net; }

std::string normalisation_name(const RunOptions& o) {
  return o.normalise != "auto" ? o.normalise : o.net == "paper" ? "mean" : "log1p";
}

Graph make_network(const RunOptions& o, const UniverseDataset& data) {
  const auto& fields = data.fields();
  const auto find = [&](const char* name) {
    return std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == name; })->shape;
  };
  return make_network(o, find("x"), find("y").elements());
}

Graph make_network(const RunOptions& o, const Shape& sample, std::int64_t targets) {
  nets::CosmoFlowOptions n;
  n.channels = static_cast<int>(sample[0]);
  n.size = sample[1];
  n.targets = static_cast<int>(targets);
  n.dropout = o.dropout;
  n.uncertainty = o.uncertainty;
  if (o.net == "paper" && n.channels != 1)
    refuse("the paper's network takes one channel, but {} were chosen: give one with --channels", n.channels);
  return o.net == "paper" ? nets::cosmoflow_paper(n) : nets::cosmoflow_mlperf(n);
}

std::shared_ptr<TargetMetric> make_metric(const RunOptions& o, const UniverseDataset& data) {
  const bool relative = o.net == "paper";
  const auto& parameters = data.parameters();
  const auto z = relative ? paper_scaling(parameters) : ZScore{};
  std::vector<TargetUnit> targets;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& p = parameters[i];
    if (relative)
      targets.push_back({p.name, z.std[i], z.mean[i]});
    else if (p.has_range)
      targets.push_back({p.name, (p.maximum - p.minimum) / 2, (p.maximum + p.minimum) / 2});
    else
      targets.push_back({p.name});
  }
  if (relative) return std::make_shared<MeanRelativeError>(std::move(targets));
  return std::make_shared<MeanAbsoluteError>(std::move(targets));
}

std::shared_ptr<Optimizer> make_optimizer(const RunOptions& o) {
  app::OptimizerOptions options = o;
  if (o.net == "paper") options.larc_floor = 1.0f / 16000;  // the published factor if a norm is 0
  auto p = app::make_optimizer(options);
  if (o.l2 > 0) p->groups.push_back({{"dense1/weights", "dense2/weights"}, 2 * o.l2, 1});  // d/dw of l2 * w^2
  return p;
}

}  // namespace keelson::cosmoflow
