#include "engine/ops/batch_norm.hpp"

#include "backends/kokkos/common/merged_launches.hpp"
#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/norm/value_sums.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

KOKKOS_INLINE_FUNCTION float inverse_deviation(float variance, float epsilon) {
  return 1 / Kokkos::sqrt(variance + epsilon);
}

/// The normalised values of N channels, before a ReLU: (x - middle) factor + offset.
template <int N>
struct Normalized {
  using Vector = typename Lanes<N>::Vector;
  ChannelValues<N> factor, middle, offset;

  KOKKOS_FUNCTION Normalized(Index channel, const float* mean, const float* variance, const float* scale,
                             const float* shift, float epsilon)
      : factor([=](int l) { return inverse_deviation(variance[channel + l], epsilon) * scale[channel + l]; }),
        middle([=](int l) { return mean[channel + l]; }),
        offset([=](int l) { return shift[channel + l]; }) {}
  KOKKOS_FORCEINLINE_FUNCTION Vector value(int p, const Vector& x) const {
    return (x - middle.part[p]) * factor.part[p] + offset.part[p];
  }
  /// The gradient before the ReLU.
  KOKKOS_FORCEINLINE_FUNCTION Vector gradient(int p, const Vector& x, const Vector& g) const {
    return where_positive(value(p, x), g);
  }
};

/// Stands for Normalized without a ReLU.
template <int N>
struct WithoutRelu {
  using Vector = typename Lanes<N>::Vector;
  KOKKOS_FUNCTION WithoutRelu(Index, const float*, const float*, const float*, const float*, float) {}
  KOKKOS_FORCEINLINE_FUNCTION Vector gradient(int, const Vector&, const Vector& g) const { return g; }
};
template <bool relu, int N>
using ReluOf = std::conditional_t<relu, Normalized<N>, WithoutRelu<N>>;

/// Reads K rows of values and of their gradients: row, row + step, ...
template <class T, int K, int N>
KOKKOS_FORCEINLINE_FUNCTION void read_rows(const T* src, const T* diff_dst, const ChannelRows& r, Index row, Index step,
                                           Index channel, RowValues<T, N> (&x)[K], RowValues<T, N> (&g)[K]) {
  const Index next = to_next_channels<N>(r, channel);
  for (int k = 0; k < K; ++k) {
    const Index at = r.offset(row + k * step, channel);
    x[k].read(src + at, next);
    g[k].read(diff_dst + at, next);
  }
}

/// Sums of g and of g x'.
template <class T, bool relu>
struct GradientSums {
  const T *src, *diff_dst;
  const float *mean, *variance, *scale, *shift;
  float epsilon;
  ChannelRows r;

  template <int N>
  KOKKOS_FUNCTION void add(Index begin, Index end, Index step, Index channel, SumLanes<N>& first,
                           SumLanes<N>& second) const {
    const ChannelValues<N> factor([&](int l) { return inverse_deviation(variance[channel + l], epsilon); }),
        middle([&](int l) { return mean[channel + l]; });
    const ReluOf<relu, N> before(channel, mean, variance, scale, shift, epsilon);
    for_rows(begin, end, step, [&](auto count, Index row) {
      constexpr int K = decltype(count)::value;
      RowValues<T, N> x[K], g[K];
      read_rows(src, diff_dst, r, row, step, channel, x, g);
      for (int k = 0; k < K; ++k) {
        KEELSON_UNROLL
        for (int p = 0; p < RowValues<T, N>::parts; ++p) {
          const auto value = x[k].vector(p);
          SumLanes<N>::widened(
              p,
              [&](int i, auto gradient, auto normal) {
                first.part[i] += gradient;
                second.part[i] += gradient * normal;
              },
              before.gradient(p, value, g[k].vector(p)), (value - middle.part[p]) * factor.part[p]);
        }
      }
    });
  }
};

template <class T>
struct Normalize {
  const T* src;
  T* dst;
  const float *mean, *variance, *scale, *shift;
  float epsilon;
  bool relu;
  ChannelRows r;

  template <int N>
  KOKKOS_FUNCTION void rows(Index begin, Index end, Index step, Index channel) const {
    const Normalized<N> normalized(channel, mean, variance, scale, shift, epsilon);
    const Index next = to_next_channels<N>(r, channel);
    for_rows(begin, end, step, [&](auto count, Index row) {
      constexpr int K = decltype(count)::value;
      RowValues<T, N> x[K];
      for (int k = 0; k < K; ++k) x[k].read(src + r.offset(row + k * step, channel), next);
      for (int k = 0; k < K; ++k) {
        RowResults<T, N> result(dst + r.offset(row + k * step, channel), dst == src ? 0 : next);
        KEELSON_UNROLL
        for (int p = 0; p < RowValues<T, N>::parts; ++p) {
          const auto value = normalized.value(p, x[k].vector(p));
          result.set(p, relu ? without_negative(value) : value);
        }
        result.store();
      }
    });
  }
};

template <class T, bool relu>
struct GradientOfSource {
  const T *src, *diff_dst;
  T* diff_src;
  const float *weight, *mean, *variance, *scale, *shift;
  const double *sums, *diff_sums;
  float epsilon;
  ChannelRows r;

  template <int N>
  KOKKOS_FUNCTION void rows(Index begin, Index end, Index step, Index channel) const {
    const double total = sums[2 * r.channels], inverse = total > 0 ? 1 / total : 0;
    const auto deviation = [&](int l) { return inverse_deviation(variance[channel + l], epsilon); };
    const ChannelValues<N> factor([&](int l) { return deviation(l) * scale[channel + l]; }),
        middle([&](int l) { return mean[channel + l]; }),
        constant([&](int l) { return static_cast<float>(diff_sums[channel + l] * inverse); }),
        slope([&](int l) { return static_cast<float>(diff_sums[r.channels + channel + l] * inverse) * deviation(l); });
    const ReluOf<relu, N> before(channel, mean, variance, scale, shift, epsilon);
    for_rows(begin, end, step, [&](auto count, Index row) {
      constexpr int K = decltype(count)::value;
      RowValues<T, N> x[K], g[K];
      read_rows(src, diff_dst, r, row, step, channel, x, g);
      for (int k = 0; k < K; ++k) {
        const float w = weight[r.by_weight.quotient(row + k * step)];
        RowResults<T, N> result(diff_src + r.offset(row + k * step, channel), 0);
        KEELSON_UNROLL
        for (int p = 0; p < RowValues<T, N>::parts; ++p) {
          const auto value = x[k].vector(p);
          const auto mean_part = w * (constant.part[p] + (value - middle.part[p]) * slope.part[p]);
          result.set(p, factor.part[p] * (before.gradient(p, value, g[k].vector(p)) - mean_part));
        }
        result.store();
      }
    });
  }
};

/// sums[2 C]; one work item, since a rank has few samples.
void sum_weights(const float* weight, Index samples, Index rows_each, double* result) {
  constexpr const char* label = "keelson::batch_norm::weights";
  launch(
      label, 1, KOKKOS_LAMBDA(Index) {
        double sum = 0;
        for (Index i = 0; i < samples; ++i) sum += static_cast<double>(weight[i]);
        *result = sum * static_cast<double>(rows_each);
      });
}

void batch_statistics(const double* sums, Index channels, float* mean, float* variance) {
  constexpr const char* label = "keelson::batch_norm::statistics";
  launch(
      label, channels, KOKKOS_LAMBDA(Index c) {
        const double total = sums[2 * channels], inverse = total > 0 ? 1 / total : 0;
        const double middle = sums[c] * inverse, spread = sums[channels + c] * inverse - middle * middle;
        mean[c] = static_cast<float>(middle);
        variance[c] = total == 0 ? 1.0f : spread < 0 ? 0.0f : static_cast<float>(spread);
      });
}

struct FollowStatistics {
  const LossScale* scale;
  const double* sums;
  Index channels;
  float momentum;
  float *mean, *variance;

  KOKKOS_FUNCTION void operator()(Index c) const {
    const double total = sums[2 * channels];
    if (!(total > 1) || (scale && scale->skip)) return;
    const double middle = sums[c] / total, spread = sums[channels + c] / total - middle * middle;
    const double unbiased = (spread < 0 ? 0.0 : spread) * total / (total - 1);
    mean[c] += momentum * (static_cast<float>(middle) - mean[c]);
    variance[c] += momentum * (static_cast<float>(unbiased) - variance[c]);
  }
};

/// The common part of these primitives: a source of (N, C, ...) and arrays of C.
template <class Op>
class OnChannels : public Op {
 public:
  explicit OnChannels(const TensorDesc& src, double passes) : src_(src), passes_(passes) {}
  Layout layout(Verb, Role r) const override {
    const bool whole = r == Role::src || r == Role::dst || r == Role::diff_src || r == Role::diff_dst;
    return whole ? src_.layout : Layout::plain(Shape{src_.shape[1]});
  }
  std::string name(Verb) const override { return "rows"; }
  Cost cost(Verb) const override {
    return {5.0 * static_cast<double>(src_.elements()), passes_ * static_cast<double>(src_.bytes())};
  }

 protected:
  TensorDesc src_;
  double passes_;  ///< number of arrays of src's size that are read or written
};

class KokkosBatchNormSums : public OnChannels<BatchNormSums> {
 public:
  explicit KokkosBatchNormSums(const BatchNormSumsDesc& d) : OnChannels(d.src, 1), rows_(d.src, d.samples) {}
  std::size_t scratch_bytes(Verb) const override { return ChannelSumsPlan(rows_).scratch_bytes(); }
  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, weight, sums, scratch] = args;
    const auto *from = src.raw(), *memory = scratch.raw();
    auto* result = sums.data<double>();
    const float* w = weight.data<float>();
    with_type(src_.dtype, [&](auto tag) {
      using T = decltype(tag);
      channel_sums<T>("keelson::batch_norm::sums", rows_, from, from,
                      ValueSums<T>{static_cast<const T*>(from), w, rows_}, result, const_cast<void*>(memory));
    });
    sum_weights(w, rows_.by_weight.quotient(rows_.rows), rows_.by_weight.divisor(), result + 2 * rows_.channels);
  }

 private:
  ChannelRows rows_;
};

class KokkosBatchNorm : public OnChannels<BatchNorm> {
 public:
  explicit KokkosBatchNorm(const BatchNormDesc& d)
      : OnChannels(d.src, 2), epsilon_(d.epsilon), relu_(d.relu), rows_(d.src, 1) {}
  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, mean, variance, scale, shift, dst] = args;
    const auto* from = src.raw();
    auto* to = dst.raw();
    const float *m = mean.data<float>(), *v = variance.data<float>();
    const float *a = scale.data<float>(), *b = shift.data<float>();
    with_type(src_.dtype, [&](auto tag) {
      using T = decltype(tag);
      for_each_row<T>(
          "keelson::batch_norm::forward", rows_, from, to,
          Normalize<T>{static_cast<const T*>(from), static_cast<T*>(to), m, v, a, b, epsilon_, relu_, rows_});
    });
  }

 private:
  float epsilon_;
  bool relu_;
  ChannelRows rows_;
};

/// Converts the sums of a backward pass to the gradients of shift and scale.
void round_sums(const double* sums, Index channels, float* diff_shift, float* diff_scale) {
  constexpr const char* label = "keelson::batch_norm::round";
  launch(
      label, channels, KOKKOS_LAMBDA(Index c) {
        diff_shift[c] = static_cast<float>(sums[c]);
        diff_scale[c] = static_cast<float>(sums[channels + c]);
      });
}

class KokkosBatchNormBackward : public OnChannels<BatchNormBackward> {
 public:
  explicit KokkosBatchNormBackward(const BatchNormBackwardDesc& d)
      : OnChannels(d.src, 2), epsilon_(d.epsilon), relu_(d.relu), rows_(d.src, d.samples) {}
  std::size_t scratch_bytes(Verb v) const override {
    return v == Verb::backward_weights ? ChannelSumsPlan(rows_).scratch_bytes() : 0;
  }

  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    const auto& [src, diff_dst, mean, variance, diff_sums, diff_scale, diff_shift, scale, shift, scratch] = args;
    KEELSON_EXPECT(!relu_ || (scale && shift));
    const auto *x = src.raw(), *g = diff_dst.raw();
    auto* memory = scratch.raw();
    const float *m = mean.data<float>(), *v = variance.data<float>();
    const float *a = relu_ ? scale.data<float>() : nullptr, *b = relu_ ? shift.data<float>() : nullptr;
    double* sums = diff_sums.data<double>();
    with_type_and_relu([&](auto tag, auto relu) {
      using T = decltype(tag);
      const GradientSums<T, decltype(relu)::value> term{
          static_cast<const T*>(x), static_cast<const T*>(g), m, v, a, b, epsilon_, rows_};
      channel_sums<T>("keelson::batch_norm::gradient_sums", rows_, x, g, term, sums, memory);
    });
    round_sums(sums, rows_.channels, diff_shift.data<float>(), diff_scale.data<float>());
  }

  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [src, diff_dst, weight, mean, variance, scale, sums, diff_sums, diff_src, shift] = args;
    KEELSON_EXPECT(!relu_ || shift);
    const auto *x = src.raw(), *g = diff_dst.raw();
    auto* to = diff_src.raw();
    const float *w = weight.data<float>(), *m = mean.data<float>(), *v = variance.data<float>();
    const float *a = scale.data<float>(), *b = relu_ ? shift.data<float>() : nullptr;
    const double *s = sums.data<double>(), *d = diff_sums.data<double>();
    with_type_and_relu([&](auto tag, auto relu) {
      using T = decltype(tag);
      const GradientOfSource<T, decltype(relu)::value> body{static_cast<const T*>(x),
                                                            static_cast<const T*>(g),
                                                            static_cast<T*>(to),
                                                            w,
                                                            m,
                                                            v,
                                                            a,
                                                            b,
                                                            s,
                                                            d,
                                                            epsilon_,
                                                            rows_};
      for_each_row<T>("keelson::batch_norm::backward_data", rows_, x, aligned(g, 16) ? to : g, body);
    });
  }

 private:
  template <class Use>
  void with_type_and_relu(const Use& use) const {
    with_type(src_.dtype, [&](auto tag) { relu_ ? use(tag, std::true_type()) : use(tag, std::false_type()); });
  }

  float epsilon_;
  bool relu_;
  ChannelRows rows_;
};

TensorDesc channels_desc(Index channels) { return TensorDesc::plain({1, channels}); }

class KokkosBatchNormStatistics : public OnChannels<BatchNormStatistics> {
 public:
  explicit KokkosBatchNormStatistics(const BatchNormStatisticsDesc& d) : OnChannels(channels_desc(d.channels), 6) {}
  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [sums, mean, variance] = args;
    batch_statistics(sums.data<double>(), src_.shape[1], mean.data<float>(), variance.data<float>());
  }
};

class KokkosRunningStatistics : public OnChannels<RunningStatistics> {
 public:
  explicit KokkosRunningStatistics(const RunningStatisticsDesc& d)
      : OnChannels(channels_desc(d.channels), 8), momentum_(d.momentum) {}
  bool merges(Verb) const override { return true; }
  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [sums, mean, variance, loss_scale] = args;
    const Index channels = src_.shape[1];
    launch_merging("keelson::batch_norm::running", channels,
                   FollowStatistics{static_cast<const LossScale*>(loss_scale.raw()), sums.data<double>(), channels,
                                    momentum_, mean.data<float>(), variance.data<float>()});
  }

 private:
  float momentum_;
};

/// "" if the kernels can process the source, else the reason why not.
std::string declined(const TensorDesc& src, Index samples) {
  if (auto why = not_strided_values("src", src); !why.empty()) return why;
  if (src.layout.is_any()) return "src has no layout yet; batch normalization takes its producer's layout";
  if (src.shape.rank() < 2) return fmt::format("src of shape {} has no channels", to_string(src.shape));
  if (samples < 1 || src.shape[0] % samples != 0)
    return fmt::format("{} rows cannot be shared by {} samples", src.shape[0], samples);
  return "";
}

template <class Op, class Impl, class Desc>
Expected<Op> made(const Desc& d, std::string why) {
  if (!why.empty()) return why;
  return std::unique_ptr<Op>(std::make_unique<Impl>(d));
}

}  // namespace

Expected<BatchNormSums> make(const BatchNormSumsDesc& d) {
  return made<BatchNormSums, KokkosBatchNormSums>(d, declined(d.src, d.samples));
}
Expected<BatchNormStatistics> make(const BatchNormStatisticsDesc& d) {
  return made<BatchNormStatistics, KokkosBatchNormStatistics>(d, "");
}
Expected<RunningStatistics> make(const RunningStatisticsDesc& d) {
  return made<RunningStatistics, KokkosRunningStatistics>(d, "");
}
Expected<BatchNorm> make(const BatchNormDesc& d) { return made<BatchNorm, KokkosBatchNorm>(d, declined(d.src, 1)); }
Expected<BatchNormBackward> make(const BatchNormBackwardDesc& d) {
  return made<BatchNormBackward, KokkosBatchNormBackward>(d, declined(d.src, d.samples));
}

}  // namespace keelson::kokkos
