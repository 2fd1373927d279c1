#include "search/genome/steps.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "search/genome/choices.hpp"
#include "search/genome/extents.hpp"

namespace keelson::search {
namespace {

using Kind = Step::Kind;

/// What follows a convolution or a dense layer.
template <class GeneName, class Part>
void finish(std::vector<Step>& steps, const Choices<GeneName, Part>& choices, const std::string& prefix) {
  if (choices.yes(GeneName::batch_norm)) steps.push_back({.kind = Kind::batch_norm, .name = prefix + "_norm"});
  steps.push_back(
      {.kind = Kind::activation, .name = prefix + "_act", .activation = choices.text(GeneName::activation)});
}

template <class GeneName, class Part>
void drop(std::vector<Step>& steps, const Choices<GeneName, Part>& choices, const std::string& prefix) {
  const auto rate = static_cast<float>(choices.number(GeneName::dropout));
  if (rate > 0) steps.push_back({.kind = Kind::dropout, .name = prefix + "_dropout", .rate = rate});
}

/// `channels`: of what the stage reads.
void append_stage(std::vector<Step>& steps, const Stage& stage, const Space& space,
                  const std::vector<std::int64_t>& extents, std::int64_t channels, const std::string& name) {
  const StageChoices choices(stage, space.stage);
  const StageKind kind = kind_of(stage, space);
  const std::size_t dims = extents.size();
  Step step{.kind = kind == StageKind::pool ? Kind::max_pool : Kind::conv, .name = name};
  for (std::size_t d = 0; d < dims; ++d)
    step.shape.push_back(kind == StageKind::pool ? std::min<std::int64_t>(extents[d], 2)
                                                 : choices.whole(static_cast<StageGene>(kernel_gene(d, dims))));
  const std::string before = steps.empty() ? "x" : steps.back().name;
  if (kind == StageKind::pool) {
    steps.push_back(step);
    return;
  }
  step.features = kind == StageKind::conv ? choices.whole(StageGene::filters) : channels;
  step.bias = !choices.yes(StageGene::batch_norm);
  if (kind == StageKind::conv) {
    step.stride = choices.whole(StageGene::stride);
    step.same = choices.text(StageGene::padding) == "same";
  }
  steps.push_back(step);
  finish(steps, choices, name);
  if (kind == StageKind::residual) steps.push_back({.kind = Kind::add, .name = name + "_sum", .with = before});
  drop(steps, choices, name);
}

}  // namespace

std::vector<Step> steps_of(const Genome& genome, const Space& space) {
  std::vector<Step> steps;
  const int rank = space.sample.rank();
  std::int64_t channels = rank >= 3 ? space.sample[0] : 1;
  if (rank == 2 && !genome.stages.empty())
    steps.push_back({.kind = Kind::reshape, .name = "image", .shape = {1, space.sample[0], space.sample[1]}});
  auto extents = extents_of(space);
  for (std::size_t i = 0; i < genome.stages.size(); ++i) {
    const Stage& stage = genome.stages[i];
    append_stage(steps, stage, space, extents, channels, fmt::format("stage{}", i + 1));
    if (kind_of(stage, space) == StageKind::conv) channels = StageChoices(stage, space.stage).whole(StageGene::filters);
    extents = extents_after(stage, extents, space);
  }
  if (rank > 1) steps.push_back({.kind = Kind::flatten, .name = "flat"});
  for (std::size_t i = 0; i < genome.dense.size(); ++i) {
    const DenseChoices choices(genome.dense[i], space.dense);
    const std::string name = fmt::format("dense{}", i + 1);
    steps.push_back({.kind = Kind::dense,
                     .name = name,
                     .features = choices.whole(DenseGene::units),
                     .bias = !choices.yes(DenseGene::batch_norm)});
    finish(steps, choices, name);
    drop(steps, choices, name);
  }
  steps.push_back({.kind = Kind::dense, .name = "output", .features = space.outputs});
  return steps;
}

}  // namespace keelson::search
