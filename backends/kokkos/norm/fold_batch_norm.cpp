#include "backends/common/divider.hpp"
#include "backends/kokkos/common/kernel.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/ops/batch_norm.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// The factor and the bias of each channel.
struct FoldChannels {
  const float *bias, *mean, *variance, *scale, *shift;  ///< bias may be null
  float epsilon;
  float *factor, *dst_bias;

  KOKKOS_FUNCTION void operator()(Index c) const {
    const float f = scale[c] / Kokkos::sqrt(variance[c] + epsilon);
    factor[c] = f;
    dst_bias[c] = ((bias ? bias[c] : 0.0f) - mean[c]) * f + shift[c];
  }
};

/// Multiplies the weights by the factors of their channels. Each channel has contiguous runs of `run` elements, and the
/// runs of all channels follow each other. Traffic: every weight read once and written once.
struct FoldWeights {
  const float *src, *factor;
  float* dst;
  Divider by_run, by_channel;

  FoldWeights(const float* from, const float* factors, float* to, Index run, Index channels, Index elements)
      : src(from), factor(factors), dst(to), by_run(run, elements), by_channel(channels, elements) {}

  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    for (Index i = begin; i < end;) {
      Index channel = i;
      const Index in_run = by_run.split(channel);
      Index row = channel;
      channel = by_channel.split(row);
      i += by_run.divisor() > 1 ? multiply_run(i, rest(by_run, in_run, i, end), channel)
                                : multiply_channels(i, rest(by_channel, channel, i, end), channel);
    }
  }

 private:
  /// The number of elements up to the end of the run, or up to `end`.
  KOKKOS_FUNCTION static Index rest(const Divider& length, Index at, Index i, Index end) {
    const Index left = length.divisor() - at;
    return left < end - i ? left : end - i;
  }
  KOKKOS_FUNCTION Index multiply_run(Index i, Index count, Index channel) const {
    const float f = factor[channel];
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index l = 0; l < count; ++l) dst[i + l] = src[i + l] * f;
    return count;
  }
  KOKKOS_FUNCTION Index multiply_channels(Index i, Index count, Index channel) const {
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index l = 0; l < count; ++l) dst[i + l] = src[i + l] * factor[channel + l];
    return count;
  }
};

/// The same for weights with gaps between their elements.
struct FoldGappedWeights {
  const float *src, *factor;
  float* dst;
  Strided at;
  Index run;  ///< in row-major order
  Index channels;

  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    for (Index i = begin; i < end; ++i) {
      const Index o = at.offset(i);
      dst[o] = src[o] * factor[i / run % channels];
    }
  }
};

class KokkosFoldBatchNorm : public FoldBatchNorm {
 public:
  explicit KokkosFoldBatchNorm(const FoldBatchNormDesc& d) : desc_(d), channels_(d.weights.shape[d.axis]) {}

  Layout layout(Verb, Role r) const override {
    return r == Role::weights || r == Role::dst ? desc_.weights.layout : desc_.channel_desc().layout;
  }
  std::string name(Verb) const override { return is_dense() ? "runs" : "elements"; }
  std::size_t scratch_bytes(Verb) const override { return static_cast<std::size_t>(channels_) * sizeof(float); }
  Cost cost(Verb) const override {
    return {static_cast<double>(desc_.weights.elements()), 2 * static_cast<double>(desc_.weights.bytes())};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [weights, bias, mean, variance, scale, shift, dst, dst_bias, scratch] = args;
    auto* factor = static_cast<float*>(scratch.raw());
    launch("keelson::fold_batch_norm::channels", channels_,
           FoldChannels{bias ? bias.data<float>() : nullptr, mean.data<float>(), variance.data<float>(),
                        scale.data<float>(), shift.data<float>(), desc_.epsilon, factor, dst_bias.data<float>()});
    constexpr const char* label = "keelson::fold_batch_norm::weights";
    const Shape& shape = desc_.weights.shape;
    const Index elements = shape.elements();
    const auto* from = weights.data<float>();
    auto* to = dst.data<float>();
    if (is_dense()) {
      const Index run = channels_ > 1 ? desc_.weights.layout.strides()[desc_.axis] : elements;
      for_each_block(label, elements, FoldWeights(from, factor, to, run, channels_, elements));
    } else {
      Index run = 1;
      for (int i = desc_.axis + 1; i < shape.rank(); ++i) run *= shape[i];
      for_each_block(label, elements, FoldGappedWeights{from, factor, to, Strided(desc_.weights), run, channels_});
    }
  }

 private:
  bool is_dense() const { return desc_.weights.layout.is_dense(desc_.weights.shape); }

  FoldBatchNormDesc desc_;
  Index channels_;
};

}  // namespace

Expected<FoldBatchNorm> make(const FoldBatchNormDesc& d) {
  if (auto why = not_strided_f32("weights", d.weights); !why.empty()) return why;
  if (d.weights.layout.is_any()) return std::string("weights have no layout yet");
  if (d.axis < 0 || d.axis >= d.weights.shape.rank())
    return fmt::format("weights {} have no dimension {}", to_string(d.weights.shape), d.axis);
  return std::unique_ptr<FoldBatchNorm>(std::make_unique<KokkosFoldBatchNorm>(d));
}

}  // namespace keelson::kokkos
