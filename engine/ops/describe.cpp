#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "engine/ops/op_list.hpp"

namespace keelson::ops {

namespace {

std::string with_activation(const EltwiseParams& p) {
  return p.kind == EltwiseKind::identity ? "" : " + " + to_string(p);
}

}  // namespace

std::string describe(const ConvDesc& d) {
  const auto& p = d.params;
  return fmt::format("conv kernel {} stride {} dilation {} padding {}:{} groups {}{}{}, src {}, weights {}, dst {}",
                     to_string(p.kernel), to_string(p.stride), to_string(p.dilation), to_string(p.pad_begin),
                     to_string(p.pad_end), p.groups, p.bias ? " + bias" : "", with_activation(p.activation),
                     to_string(d.src), to_string(d.weights), to_string(d.dst));
}

std::string kind_of_problem(const ConvDesc& d) {
  const auto& p = d.params;
  const auto channels = static_cast<std::uint64_t>(std::min(d.src.shape[1], d.dst.shape[1]) / p.groups);
  return fmt::format("kernel {} stride {} dilated {} grouped {} log2 of channels {} src {} dst {} channels-last {}",
                     to_string(p.kernel), to_string(p.stride), p.dilation.elements() > 1, p.groups > 1,
                     std::bit_width(std::min<std::uint64_t>(channels, 64)), to_string(d.src.dtype),
                     to_string(d.dst.dtype), d.src.layout.is_channels_last(d.src.shape));
}

std::string describe(const TransposedConvDesc& d) {
  const auto& p = d.params;
  return fmt::format(
      "transposed conv kernel {} stride {} dilation {} padding {}:{} output padding {} groups {}{}{}, src {}, weights "
      "{}, "
      "dst {}",
      to_string(p.kernel), to_string(p.stride), to_string(p.dilation), to_string(p.pad_begin), to_string(p.pad_end),
      to_string(p.output_padding), p.groups, p.bias ? " + bias" : "", with_activation(p.activation), to_string(d.src),
      to_string(d.weights), to_string(d.dst));
}

std::string describe(const DenseDesc& d) {
  return fmt::format("dense{}{}, src {}, weights {}, dst {}", d.params.bias ? " + bias" : "",
                     with_activation(d.params.activation), to_string(d.src), to_string(d.weights), to_string(d.dst));
}

std::string describe(const PoolDesc& d) {
  const auto& p = d.params;
  return fmt::format("{} pool kernel {} stride {} padding {}:{}, src {}, dst {}",
                     p.kind == PoolKind::max ? "max" : "average", to_string(p.kernel), to_string(p.stride),
                     to_string(p.pad_begin), to_string(p.pad_end), to_string(d.src), to_string(d.dst));
}

std::string describe(const ConvMaxPoolDesc& d) {
  return fmt::format(
      "backward of conv kernel {} padding {}:{} groups {} before max pool {} stride {}, src {}, weights {}, dst {}{}",
      to_string(d.conv.kernel), to_string(d.conv.pad_begin), to_string(d.conv.pad_end), d.conv.groups,
      to_string(d.pool.kernel), to_string(d.pool.stride), to_string(d.src), to_string(d.weights), to_string(d.dst),
      d.compute == DType::f32 ? "" : fmt::format(", may round to {}", to_string(d.compute)));
}

std::string describe(const ConvMaxPoolForwardDesc& d) {
  return fmt::format("{} and max pool {} stride {} in one call, dst {}", describe(d.conv), to_string(d.pool.kernel),
                     to_string(d.pool.stride), to_string(d.dst));
}

std::string describe(const EltwiseDesc& d) { return fmt::format("{}, src {}", to_string(d.params), to_string(d.src)); }

std::string describe(const DropoutDesc& d) {
  return fmt::format("dropout {}, src {}", d.params.rate, to_string(d.src));
}

std::string describe(const ReorderDesc& d) {
  return fmt::format("reorder {} -> {}", to_string(d.src), to_string(d.dst));
}

std::string describe(const SumDesc& d) {
  std::string text = fmt::format("sum of {}, dst {}", d.srcs.size(), to_string(d.dst));
  for (const TensorDesc& src : d.srcs)
    if (!(src == d.dst)) text += ", a term " + to_string(src);
  return text;
}

std::string describe(const ProductDesc& d) { return fmt::format("product of {}, dst {}", d.count, to_string(d.dst)); }

std::string describe(const ConcatDesc& d) {
  return fmt::format("concat of {} along axis {}, dst {}", d.srcs.size(), d.axis, to_string(d.dst));
}

std::string describe(const SoftmaxDesc& d) {
  return fmt::format("softmax along axis {}, src {}", d.axis, to_string(d.src));
}

std::string describe(const EmbeddingDesc& d) {
  return fmt::format("embedding, ids {}, weights {}", to_string(d.ids), to_string(d.weights));
}

std::string describe(const AddRowsDesc& d) {
  return fmt::format("add rows{}, rows {}, dst {}", d.accumulate ? "" : " to 0", to_string(d.diff_rows),
                     to_string(d.dst));
}

std::string describe(const MatMulDesc& d) {
  return fmt::format("{} matmul x {}, src {}, weights {}, dst {}", to_string(d.compute), d.uses, to_string(d.src),
                     to_string(d.weights), to_string(d.dst));
}

std::string describe(const RecurrentCellDesc& d) {
  return fmt::format("{} cell, batch {}, {} steps, {} hidden", to_string(d.kind), d.batch, d.steps, d.hidden);
}

std::string describe(const ClassSumsDesc& d) {
  return fmt::format("sums of classes, prediction {}", to_string(d.prediction));
}

std::string describe(const LossDesc& d) {
  std::string text = fmt::format("{} loss, prediction {}, target {}", to_string(d.params.kind), to_string(d.prediction),
                                 to_string(d.target));
  if (d.class_part.all > 0)
    text +=
        fmt::format(", classes from {} on of {} in {} parts", d.class_part.first, d.class_part.all, d.class_part.parts);
  return text;
}

std::string describe(const SumSquaresDesc& d) { return fmt::format("sum of squares, src {}", to_string(d.src)); }

std::string describe(const CheckGradientsDesc& d) {
  return fmt::format("check of gradients{}", d.dynamic ? ", dynamic scale" : "");
}

std::string describe(const UpdateDesc& d) {
  return fmt::format("{} update{}, parameter {}", to_string(d.params.kind),
                     d.rows > 0 ? fmt::format(" of {} rows", d.rows) : "", to_string(d.param));
}

std::string describe(const LambDirectionDesc& d) {
  return fmt::format("lamb direction, parameter {}", to_string(d.param));
}

std::string describe(const MuonDirectionDesc& d) {
  return fmt::format("muon direction, parameter {}", to_string(d.param));
}

std::string describe(const MuonStepDesc& d) { return fmt::format("muon step, parameter {}", to_string(d.param)); }

std::string describe(const OrthogonalizeDesc& d) {
  return fmt::format("orthogonalize, {} steps, src {}", d.steps, to_string(d.src));
}

std::string describe(const BatchNormSumsDesc& d) {
  return fmt::format("sums of batch normalization, src {}", to_string(d.src));
}

std::string describe(const BatchNormStatisticsDesc& d) {
  return fmt::format("statistics of batch normalization, {} channels", d.channels);
}

std::string describe(const RunningStatisticsDesc& d) {
  return fmt::format("running statistics, {} channels", d.channels);
}

std::string describe(const BatchNormDesc& d) {
  return fmt::format("batch normalization{}, src {}", d.relu ? " + relu" : "", to_string(d.src));
}

std::string describe(const FoldBatchNormDesc& d) {
  return fmt::format("fold of batch normalization, weights {}, channels in dimension {}", to_string(d.weights), d.axis);
}

std::string describe(const BatchNormBackwardDesc& d) {
  return fmt::format("gradients of batch normalization{}, src {}", d.relu ? " + relu" : "", to_string(d.src));
}

std::string describe(const BiasGradientDesc& d) {
  return fmt::format("gradient of the bias, diff_dst {}", to_string(d.diff_dst));
}

std::string describe(const GraftDirectionDesc& d) {
  return fmt::format("direction of {}, parameter {}", to_string(d.params.method), to_string(d.param));
}

std::string describe(const DecayedSumDesc& d) {
  return fmt::format("decayed sum, sum {}, decay {}", to_string(d.sum), d.decay);
}

std::string describe(const InverseRootsDesc& d) {
  std::int64_t largest = 0;
  for (const auto& m : d.matrices) largest = std::max(largest, m.size);
  std::string text = fmt::format("inverse roots of {} matrices, the largest of {} rows", d.matrices.size(), largest);
  if (d.delay > 0) text += fmt::format(", of {} steps ago", d.delay);
  return text;
}

std::string describe(const ShampooStepDesc& d) { return fmt::format("shampoo step, parameter {}", to_string(d.param)); }

std::string describe(const LambStepDesc& d) { return fmt::format("lamb step, parameter {}", to_string(d.param)); }

}  // namespace keelson::ops
