#include "engine/train/sync/flat_arrays.hpp"

namespace keelson {
namespace {

constexpr std::int64_t aligned_floats = 16;  // 64 bytes

/// What the array takes of a block, in floats.
std::int64_t room(const Tensor& t) {
  const auto floats = static_cast<std::int64_t>(t.bytes() / sizeof(float));
  return (floats + aligned_floats - 1) / aligned_floats * aligned_floats;
}

}  // namespace

FlatArrays::FlatArrays(Parameters& parameters, const Content& content) : parameters_(parameters) {
  for (Parameter& p : parameters.all()) {
    const bool trained = p.kind == ParameterKind::trained;
    if (p.value && (trained ? content.values : content.statistics)) arrays_.push_back(p.value);
    if (!content.moments) continue;
    for (const Tensor& moment : p.moments)
      if (moment) arrays_.push_back(moment);
  }
  for (const Tensor& t : arrays_) size_ += room(t);
}

Tensor FlatArrays::allocate(const std::string& name) const {
  return parameters_.context().allocate(TensorDesc::plain({size_}), name);
}

void FlatArrays::gather(const Tensor& block) const {
  auto* to = block.data<float>();
  for (const Tensor& t : arrays_) {
    parameters_.context().device().copy(to, t.raw(), t.bytes());
    to += room(t);
  }
}

void FlatArrays::scatter(const Tensor& block) const {
  const auto* from = block.data<float>();
  for (const Tensor& t : arrays_) {
    parameters_.context().device().copy(t.raw(), from, t.bytes());
    from += room(t);
  }
}

void FlatArrays::copy(const Tensor& to, const Tensor& from) const {
  parameters_.context().device().copy(to.raw(), from.raw(), to.bytes());
}

void FlatArrays::add(const Tensor& to, const std::vector<Tensor>& terms) {
  auto& op = sums_[terms.size()];
  if (!op)
    op = parameters_.context().make(ops::SumDesc::alike(TensorDesc::plain({size_}), static_cast<int>(terms.size())));
  op->forward({.srcs = terms, .dst = to});
}

void FlatArrays::scale(const Tensor& block, float factor) {
  auto& op = scales_[factor];
  if (!op)
    op = parameters_.context().make(
        ops::EltwiseDesc{{.kind = ops::EltwiseKind::linear, .alpha = factor}, TensorDesc::plain({size_})});
  op->forward({.src = block, .dst = block});
}

}  // namespace keelson
