#include "search/genome/steps.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "search/genome/choices.hpp"
#include "search/genome/extents.hpp"
#include "search/genome/ranges.hpp"

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

/// Copies of the layer that follow it.
template <class GeneName, class Part>
std::int64_t copies_of(const Choices<GeneName, Part>& choices) {
  return choices.has(GeneName::copies) ? choices.whole(GeneName::copies) : 0;
}

std::string copy_name(const std::string& layer, std::int64_t copy) { return fmt::format("{}_copy{}", layer, copy); }

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
  std::string before = steps.empty() ? "x" : steps.back().name;
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
  const std::int64_t copies = copies_of(choices);
  for (std::int64_t copy = 0; copy <= copies; ++copy) {
    if (copy > 0) step.name = copy_name(name, copy), step.stride = 1, step.same = true;
    steps.push_back(step);
    finish(steps, choices, step.name);
    if (kind != StageKind::residual) continue;
    steps.push_back({.kind = Kind::add, .name = step.name + "_sum", .with = before});
    before = steps.back().name;
  }
  drop(steps, choices, name);
}

/// A value on its way through the stages. Behind a recurrent layer, and of sequences at first, it has a row of features
/// for each step; else it is an image of channels.
struct Value {
  std::vector<std::int64_t> extents;  ///< (steps, features) of rows
  std::int64_t channels = 1;          ///< 1 of rows
  bool is_rows = false;               ///< (N * steps, features), as recurrent layers have it
};

/// Makes what the next stage can read.
void make_readable(std::vector<Step>& steps, Value& value, bool recurrent, const Space& space,
                   const std::string& name) {
  const auto& extents = value.extents;
  if (recurrent && !value.is_rows) {
    steps.push_back({.kind = Kind::rows,
                     .name = name + "_rows",
                     .features = extents[1] * value.channels,
                     .channels_last = value.channels > 1});
    value = {{extents[0], extents[1] * value.channels}, 1, true};
  } else if (!recurrent && (value.is_rows || (steps.empty() && space.is_sequences()))) {
    const std::string reshaped = steps.empty() ? "image" : name + "_image";
    steps.push_back({.kind = Kind::reshape, .name = reshaped, .shape = {1, extents[0], extents[1]}});
    value.is_rows = false;
  }
}

void append_recurrent(std::vector<Step>& steps, const Stage& stage, const Space& space, const std::string& name) {
  const StageChoices choices(stage, space.stage);
  const bool lstm = kind_of(stage, space) == StageKind::lstm;
  steps.push_back({.kind = lstm ? Kind::lstm : Kind::gru,
                   .name = name + (lstm ? "_lstm" : "_gru"),
                   .features = choices.whole(StageGene::hidden)});
  drop(steps, choices, name);
}

void append_dense(std::vector<Step>& steps, const DenseLayer& layer, const Space& space, const std::string& name) {
  const DenseChoices choices(layer, space.dense);
  Step step{.kind = Kind::dense,
            .name = name,
            .features = choices.whole(DenseGene::units),
            .bias = !choices.yes(DenseGene::batch_norm)};
  const std::int64_t copies = copies_of(choices);
  for (std::int64_t copy = 0; copy <= copies; ++copy) {
    if (copy > 0) step.name = copy_name(name, copy);
    steps.push_back(step);
    finish(steps, choices, step.name);
  }
  drop(steps, choices, name);
}

}  // namespace

std::vector<Step> steps_of(const Genome& genome, const Space& space) {
  std::vector<Step> steps;
  const int rank = space.sample.rank();
  Value value{extents_of(space), rank >= 3 ? space.sample[0] : 1};
  for (std::size_t i = 0; i < genome.stages.size(); ++i) {
    const Stage& stage = genome.stages[i];
    const StageKind kind = kind_of(stage, space);
    const std::string name = fmt::format("stage{}", i + 1);
    make_readable(steps, value, is_recurrent(kind), space, name);
    if (is_recurrent(kind))
      append_recurrent(steps, stage, space, name);
    else
      append_stage(steps, stage, space, value.extents, value.channels, name);
    if (kind == StageKind::conv) value.channels = StageChoices(stage, space.stage).whole(StageGene::filters);
    value.extents = extents_after(stage, value.extents, space);
  }
  if (value.is_rows)
    steps.push_back({.kind = Kind::last_step, .name = "last"});
  else if (rank > 1)
    steps.push_back({.kind = Kind::flatten, .name = "flat"});
  for (std::size_t i = 0; i < genome.dense.size(); ++i) append_dense(steps, genome.dense[i], space, dense_name(i));
  steps.push_back({.kind = Kind::dense, .name = "output", .features = space.outputs});
  return steps;
}

}  // namespace keelson::search
