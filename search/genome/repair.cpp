#include <algorithm>
#include <optional>

#include "search/genome/choices.hpp"
#include "search/genome/extents.hpp"
#include "search/genome/ranges.hpp"

namespace keelson::search {
namespace {

/// The largest choice of a kernel that is no larger than the extent; no value: all are larger.
std::optional<int> fitting_kernel(const Gene& gene, int wanted, std::int64_t extent) {
  for (int value = wanted; value >= 0; --value)
    if (gene.number(value) <= static_cast<double>(extent)) return value;
  return std::nullopt;
}

/// The stage that can follow a value of these extents; no value: none can.
std::optional<Stage> repaired_stage(const Stage& stage, const std::vector<std::int64_t>& extents, const Space& space) {
  const StageKind kind = kind_of(stage, space);
  if (kind == StageKind::identity) return std::nullopt;
  Stage out{};
  out[at(StageGene::kind)] = stage[at(StageGene::kind)];
  if (is_recurrent(kind)) {
    for (const StageGene gene : {StageGene::hidden, StageGene::dropout}) out[at(gene)] = stage[at(gene)];
    return out;
  }
  if (kind == StageKind::pool) {
    if (std::ranges::all_of(extents, [](std::int64_t e) { return e == 1; })) return std::nullopt;
    return out;
  }
  for (const StageGene gene : {StageGene::activation, StageGene::batch_norm, StageGene::dropout, StageGene::copies})
    out[at(gene)] = stage[at(gene)];
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const std::size_t gene = kernel_gene(d, extents.size());
    const auto kernel = fitting_kernel(space.stage[gene], stage[gene], extents[d]);
    if (!kernel) return std::nullopt;
    out[gene] = *kernel;
  }
  if (kind == StageKind::conv)
    for (const StageGene gene : {StageGene::filters, StageGene::stride, StageGene::padding})
      out[at(gene)] = stage[at(gene)];
  return out;
}

}  // namespace

Genome repaired(const Genome& genome, const Space& space) {
  Genome out;
  auto extents = extents_of(space);
  for (const Stage& stage : genome.stages) {
    auto fits = repaired_stage(stage, extents, space);
    if (!fits) continue;
    keep_within(*fits, out.stages.size(), space);
    extents = extents_after(*fits, extents, space);
    out.stages.push_back(*fits);
  }
  out.dense = genome.dense;
  for (std::size_t i = 0; i < out.dense.size(); ++i) keep_within(out.dense[i], i, space);
  out.training = genome.training;
  const Gene& optimizer = space.training[at(TrainingGene::optimizer)];
  if (optimizer.choices[static_cast<std::size_t>(genome.training[at(TrainingGene::optimizer)])] != "sgd")
    out.training[at(TrainingGene::momentum)] = 0;
  return out;
}

StageKind kind_of(const Stage& stage, const Space& space) {
  const std::string& name =
      space.stage[at(StageGene::kind)].choices[static_cast<std::size_t>(stage[at(StageGene::kind)])];
  return name == "conv"       ? StageKind::conv
         : name == "pool"     ? StageKind::pool
         : name == "residual" ? StageKind::residual
         : name == "lstm"     ? StageKind::lstm
         : name == "gru"      ? StageKind::gru
                              : StageKind::identity;
}

std::size_t kernel_gene(std::size_t dim, std::size_t dims) { return at(StageGene::kernel_w) + dim + 1 - dims; }

std::vector<std::int64_t> extents_of(const Space& space) {
  std::vector<std::int64_t> extents;
  const int dims = space.spatial_dims();
  for (int d = 0; d < dims; ++d) extents.push_back(space.sample[space.sample.rank() - dims + d]);
  return extents;
}

std::vector<std::int64_t> extents_after(const Stage& stage, std::vector<std::int64_t> extents, const Space& space) {
  const StageKind kind = kind_of(stage, space);
  const auto choice = [&](std::size_t gene) {
    return space.stage[gene].choices[static_cast<std::size_t>(stage[gene])];
  };
  if (is_recurrent(kind)) return {extents[0], std::stoll(choice(at(StageGene::hidden)))};
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (kind == StageKind::pool) extents[d] = std::max<std::int64_t>(extents[d] / 2, 1);
    if (kind != StageKind::conv) continue;
    const auto stride = std::stoll(choice(at(StageGene::stride)));
    const auto kernel = std::stoll(choice(kernel_gene(d, extents.size())));
    const bool same = choice(at(StageGene::padding)) == "same";
    extents[d] = same ? (extents[d] + stride - 1) / stride : (extents[d] - kernel) / stride + 1;
  }
  return extents;
}

}  // namespace keelson::search
