#include "engine/ops/group_norm.hpp"

#include "backends/kokkos/common/parallel_sum.hpp"
#include "backends/kokkos/common/run_sum.hpp"
#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/norm/value_sums.hpp"
#include "engine/ops/factory.hpp"

/// With one position per sample (rows), the values of a group are a contiguous run. On a CPU a work item then processes
/// whole runs, which stay in the cache. Else sums of each sample and channel are made, and those of a group's channels
/// added.
namespace keelson::kokkos {

namespace {

using namespace ops;

struct GroupShape {
  Index samples, channels, groups, each;  ///< each: channels of a group
  double inverse_count;                   ///< 1 / number of values of a group
  float epsilon;
  ChannelRows r;
  Divider by_each;

  explicit GroupShape(const GroupNormDesc& d)
      : samples(d.src.shape[0]),
        channels(d.src.shape[1]),
        groups(d.groups),
        each(channels / groups),
        epsilon(d.epsilon),
        r(d.src, samples),
        by_each(each, channels + 1) {
    inverse_count = 1 / (static_cast<double>(each) * static_cast<double>(positions()));
  }
  KOKKOS_FUNCTION Index positions() const { return r.by_weight.divisor(); }
  KOKKOS_FUNCTION Index runs() const { return samples * groups; }
  bool is_rows() const { return positions() == 1; }
  /// How many runs of a CPU's work item have some thousand values.
  Index runs_each() const { return each < 4096 ? 4096 / each : 1; }
};

KOKKOS_INLINE_FUNCTION float inverse_spread(float variance, float epsilon) {
  return 1 / Kokkos::sqrt(variance + epsilon);
}

/// Statistics and parameters of N channels of one sample at a time.
template <int N>
struct GroupChannels {
  const GroupShape& s;
  const float *mean, *variance;
  Index channel, sample = -1;
  float middle[N] = {}, inverse[N] = {};

  KOKKOS_FUNCTION GroupChannels(const GroupShape& shape, const float* mean, const float* variance, Index channel)
      : s(shape), mean(mean), variance(variance), channel(channel) {}
  KOKKOS_FUNCTION Index group(int l) const { return sample * s.groups + s.by_each.quotient(channel + l); }
  /// Returns whether this is another sample than before.
  KOKKOS_FORCEINLINE_FUNCTION bool take(Index row) {
    const Index now = s.r.by_weight.quotient(row);
    if (now == sample) return false;
    sample = now;
    if (s.groups == 1) {
      const float m = mean[sample], i = inverse_spread(variance[sample], s.epsilon);
      for (int l = 0; l < N; ++l) middle[l] = m, inverse[l] = i;
      return true;
    }
    for (int l = 0; l < N; ++l) {
      middle[l] = mean[group(l)];
      inverse[l] = inverse_spread(variance[group(l)], s.epsilon);
    }
    return true;
  }
};

// ---- forward

/// A term of the sum of a run, or of its squares, on a GPU.
template <class T, bool squares>
struct RunTerm {
  const T* src;
  Index count;
  KOKKOS_FUNCTION double operator()(Index run, Index i) const {
    const double x = static_cast<double>(value_of(src[run * count + i]));
    return squares ? x * x : x;
  }
};

/// The mean and the variance of a group, from its sums in `terms` places of `first` and of `second`.
struct GroupStatistics {
  const double *first, *second;
  Index terms, groups, sample_stride;  ///< stride from sample to sample
  double inverse_count;
  float *mean, *variance;

  KOKKOS_FUNCTION void operator()(Index i) const {
    const Index at = i / groups * sample_stride + i % groups * terms;
    double sum = 0, squares = 0;
    for (Index c = 0; c < terms; ++c) sum += first[at + c], squares += second[at + c];
    const double middle = sum * inverse_count, spread = squares * inverse_count - middle * middle;
    mean[i] = static_cast<float>(middle);
    variance[i] = spread < 0 ? 0.0f : static_cast<float>(spread);
  }
};

template <class T>
struct NormalizeGroups {
  const T* src;
  T* dst;
  const float *mean, *variance, *scale, *shift;
  GroupShape s;

  template <int N>
  KOKKOS_FUNCTION void rows(Index begin, Index end, Index step, Index channel) const {
    GroupChannels<N> g(s, mean, variance, channel);
    float factor[N] = {}, x[N];
    for (Index row = begin; row < end; row += step) {
      const Index at = s.r.offset(row, channel);
      load(src + at, x);
      if (g.take(row))
        for (int l = 0; l < N; ++l) factor[l] = g.inverse[l] * scale[channel + l];
      for (int l = 0; l < N; ++l) x[l] = (x[l] - g.middle[l]) * factor[l] + shift[channel + l];
      store(dst + at, x);
    }
  }
};

/// Statistics and results of whole runs, in two passes over values in the cache and a third one that writes.
template <class T>
struct NormalizeRuns {
  const T* src;
  T* dst;
  float *mean, *variance;
  const float *scale, *shift;
  GroupShape s;

  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    const float inverse_count = static_cast<float>(s.inverse_count);
    for (Index run = begin; run < end; ++run) {
      const T* x = src + run * s.each;
      T* y = dst + run * s.each;
      const float *factor = scale + run % s.groups * s.each, *offset = shift + run % s.groups * s.each;
      const float middle = run_sum(s.each, [=](Index i) { return value_of(x[i]); }) * inverse_count;
      const float spread = inverse_count * run_sum(s.each, [=](Index i) {
                             const float distance = value_of(x[i]) - middle;
                             return distance * distance;
                           });
      mean[run] = middle, variance[run] = spread;
      const float inverse = inverse_spread(spread, s.epsilon);
      KEELSON_INDEPENDENT_ITERATIONS
      for (Index i = 0; i < s.each; ++i) y[i] = stored<T>((value_of(x[i]) - middle) * inverse * factor[i] + offset[i]);
    }
  }
};

// ---- backward

/// Sums of g and of g x' of each channel, over all rows or over those of a sample.
template <class T>
struct GroupGradientSums {
  const T *src, *diff_dst;
  const float *mean, *variance;
  GroupShape s;

  template <int N>
  KOKKOS_FUNCTION void add(Index begin, Index end, Index step, Index channel, SumLanes<N>& first,
                           SumLanes<N>& second) const {
    GroupChannels<N> group(s, mean, variance, channel);
    float x[N], g[N];
    for (Index row = begin; row < end; row += step) {
      const Index at = s.r.offset(row, channel);
      load(src + at, x);
      load(diff_dst + at, g);
      group.take(row);
      for (int l = 0; l < N; ++l) x[l] = g[l] * ((x[l] - group.middle[l]) * group.inverse[l]);
      first.add(g);
      second.add(x);
    }
  }
};

/// The gradients of scale and shift from the sums of each sample.
struct AddSampleSums {
  const double* sums;  ///< (samples, 2, channels)
  Index samples, channels;
  float *diff_scale, *diff_shift;
  KOKKOS_FUNCTION void operator()(Index c) const {
    double first = 0, second = 0;
    for (Index n = 0; n < samples; ++n) {
      first += sums[2 * n * channels + c];
      second += sums[(2 * n + 1) * channels + c];
    }
    diff_shift[c] = static_cast<float>(first);
    diff_scale[c] = static_cast<float>(second);
  }
};

/// The means of scale g and of scale g x' of a group, from the sums of each sample and channel.
struct GroupMeans {
  const double* sums;  ///< (samples, 2, channels)
  const float* scale;
  Index each, groups, channels;
  double inverse_count;
  float *first, *second;

  KOKKOS_FUNCTION void operator()(Index i) const {
    const Index c0 = i % groups * each;
    const double* of = sums + i / groups * 2 * channels;
    double a = 0, b = 0;
    for (Index c = c0; c < c0 + each; ++c) {
      a += static_cast<double>(scale[c]) * of[c];
      b += static_cast<double>(scale[c]) * of[channels + c];
    }
    first[i] = static_cast<float>(a * inverse_count);
    second[i] = static_cast<float>(b * inverse_count);
  }
};

/// The gradient of whole runs from their means.
template <class T>
struct GradientOfRuns {
  const T *src, *diff_dst;
  T* diff_src;
  const float *mean, *variance, *scale, *first, *second;
  GroupShape s;

  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    for (Index run = begin; run < end; ++run) {
      const T *x = src + run * s.each, *g = diff_dst + run * s.each;
      T* to = diff_src + run * s.each;
      const float* factor = scale + run % s.groups * s.each;
      const float middle = mean[run], inverse = inverse_spread(variance[run], s.epsilon);
      const float constant = first[run], slope = second[run] * inverse;
      KEELSON_INDEPENDENT_ITERATIONS
      for (Index i = 0; i < s.each; ++i)
        to[i] = stored<T>(inverse * (value_of(g[i]) * factor[i] - constant - (value_of(x[i]) - middle) * slope));
    }
  }
};

/// On a CPU: the means of whole runs, the sums of each channel and the gradient of src (if there is memory for it),
/// while the rows of a tile are in the cache.
template <class T>
struct RunGradientSums {
  const T *src, *diff_dst;
  const float *mean, *variance, *scale;
  float *first, *second;  ///< means of scale g and of scale g x'
  float* inverse;         ///< 1 / sqrt(variance + epsilon) of each run
  T* diff_src;            ///< may be diff_dst, or null
  GroupShape s;

  void begin_tile(Index begin, Index end) const {
    const float inverse_count = static_cast<float>(s.inverse_count);
    for (Index run = begin * s.groups; run < end * s.groups; ++run) {
      const T *x = src + run * s.each, *g = diff_dst + run * s.each;
      const float *factor = scale + run % s.groups * s.each, middle = mean[run];
      inverse[run] = inverse_spread(variance[run], s.epsilon);
      first[run] = inverse_count * run_sum(s.each, [=](Index i) { return factor[i] * value_of(g[i]); });
      second[run] = inverse_count * inverse[run] *
                    run_sum(s.each, [=](Index i) { return factor[i] * value_of(g[i]) * (value_of(x[i]) - middle); });
    }
  }
  template <int N>
  void add(Index begin, Index end, Index, Index channel, SumLanes<N>& sums, SumLanes<N>& value_sums) const {
    Index group[N];
    for (int l = 0; l < N; ++l) group[l] = s.by_each.quotient(channel + l);
    // A tile has few rows: f32 is exact enough within it.
    float middle[N], spread[N], x[N], g[N], tile_sums[N] = {}, tile_value_sums[N] = {};
    for (Index row = begin; row < end; ++row) {
      const float *m = mean + row * s.groups, *i = inverse + row * s.groups;
      load(src + row * s.channels + channel, x);
      load(diff_dst + row * s.channels + channel, g);
      if (group[0] == group[N - 1])
        for (int l = 0; l < N; ++l) middle[l] = m[group[0]], spread[l] = i[group[0]];
      else
        for (int l = 0; l < N; ++l) middle[l] = m[group[l]], spread[l] = i[group[l]];
      KEELSON_KEEP_LOOP
      for (int l = 0; l < N; ++l) {
        tile_sums[l] += g[l];
        tile_value_sums[l] += g[l] * ((x[l] - middle[l]) * spread[l]);
      }
    }
    sums.add(tile_sums);
    value_sums.add(tile_value_sums);
  }
  void end_tile(Index begin, Index end) const {
    if (diff_src)
      GradientOfRuns<T>{src, diff_dst, diff_src, mean, variance, scale, first, second, s}(begin * s.groups,
                                                                                          end * s.groups);
  }
};

/// A term of these means on a GPU.
template <class T, bool with_value>
struct RunGradientTerm {
  const T *src, *diff_dst;
  const float *mean, *variance, *scale;
  Index each, groups;
  float epsilon;
  KOKKOS_FUNCTION double operator()(Index run, Index i) const {
    const Index at = run * each + i;
    const float g = scale[run % groups * each + i] * value_of(diff_dst[at]);
    if (!with_value) return static_cast<double>(g);
    return static_cast<double>(g * (value_of(src[at]) - mean[run]) * inverse_spread(variance[run], epsilon));
  }
};

struct MeansOfSums {
  const double *first_sums, *second_sums;
  double inverse_count;
  float *first, *second;
  KOKKOS_FUNCTION void operator()(Index i) const {
    first[i] = static_cast<float>(first_sums[i] * inverse_count);
    second[i] = static_cast<float>(second_sums[i] * inverse_count);
  }
};

template <class T>
struct GradientOfGroups {
  const T *src, *diff_dst;
  T* diff_src;
  const float *mean, *variance, *scale, *first, *second;
  GroupShape s;

  template <int N>
  KOKKOS_FUNCTION void rows(Index begin, Index end, Index step, Index channel) const {
    GroupChannels<N> group(s, mean, variance, channel);
    float x[N], g[N], constant[N] = {}, slope[N] = {};
    for (Index row = begin; row < end; row += step) {
      const Index at = s.r.offset(row, channel);
      load(src + at, x);
      load(diff_dst + at, g);
      if (group.take(row))
        for (int l = 0; l < N; ++l) {
          constant[l] = first[group.group(l)];
          slope[l] = second[group.group(l)] * group.inverse[l];
        }
      for (int l = 0; l < N; ++l)
        g[l] = group.inverse[l] * (g[l] * scale[channel + l] - constant[l] - (x[l] - group.middle[l]) * slope[l]);
      store(diff_src + at, g);
    }
  }
};

class KokkosGroupNorm : public GroupNorm {
 public:
  explicit KokkosGroupNorm(const GroupNormDesc& d) : d_(d), s_(d) {}
  Layout layout(Verb, Role r) const override {
    if (r == Role::mean || r == Role::variance) return d_.group_desc().layout;
    if (r == Role::diff_sums) return d_.diff_sums_desc().layout;
    const bool whole = r == Role::src || r == Role::dst || r == Role::diff_src || r == Role::diff_dst;
    return whole ? d_.src.layout : d_.channel_desc().layout;
  }
  std::string name(Verb) const override { return s_.is_rows() ? "rows" : "positions"; }
  Cost cost(Verb v) const override {
    const bool one_pass =
        whole_runs() ? v == Verb::forward : v == Verb::backward_weights;  // reads or writes twice, in all
    const double passes = one_pass ? 2 : 3;
    return {8.0 * static_cast<double>(d_.src.elements()), passes * static_cast<double>(d_.src.bytes())};
  }
  std::size_t scratch_bytes(Verb v) const override {
    if (v == Verb::backward_data || (v == Verb::forward && whole_runs())) return 0;
    if (whole_runs()) return channel_sums_bytes() + static_cast<std::size_t>(s_.runs()) * sizeof(float);
    const auto runs = static_cast<std::size_t>(s_.runs() * (2 + parallel_sum_scratch(s_.each))) * sizeof(double);
    return s_.is_rows() ? std::max(channel_sums_bytes(), runs) : channel_sums_bytes();
  }

  bool joins_backward() const override { return whole_runs(); }
  void forward(const Forward<ops::Tensors>& args) override {
    if (d_.src.elements() == 0) return;
    with_type(d_.src.dtype, [&]<class T>(T) { normalize<T>(args); });
  }
  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    with_type(d_.src.dtype, [&]<class T>(T) { gradients<T>(args); });
  }
  void backward_data(const BackwardData<ops::Tensors>& args) override {
    if (d_.src.elements() == 0) return;
    with_type(d_.src.dtype, [&]<class T>(T) { gradient_of_src<T>(args); });
  }

 private:
  bool whole_runs() const { return runs_on_host && s_.is_rows(); }
  /// Of how many samples channels have sums of their own.
  Index sum_samples() const { return s_.is_rows() ? 1 : s_.samples; }
  /// Of the sums of each channel, with what their kernels need.
  std::size_t channel_sums_bytes() const {
    return static_cast<std::size_t>(2 * sum_samples() * s_.channels) * sizeof(double) +
           ChannelSumsPlan(s_.r, sum_samples()).scratch_bytes();
  }

  template <class T>
  void normalize(const Forward<ops::Tensors>& args) const {
    const T* x = args.src.template data<T>();
    T* y = args.dst.template data<T>();
    float *mean = args.mean.template data<float>(), *variance = args.variance.template data<float>();
    const float *scale = args.scale.template data<float>(), *shift = args.shift.template data<float>();
    constexpr const char* label = "keelson::group_norm::forward";
    if (whole_runs())
      return for_each_block(label, s_.runs(), NormalizeRuns<T>{x, y, mean, variance, scale, shift, s_}, s_.runs_each());
    auto* sums = static_cast<double*>(args.scratch.raw());
    if (s_.is_rows()) {
      double *second = sums + s_.runs(), *rest = second + s_.runs();
      parallel_sums("keelson::group_norm::sums", RunTerm<T, false>{x, s_.each}, s_.runs(), s_.each, rest, sums);
      parallel_sums("keelson::group_norm::squares", RunTerm<T, true>{x, s_.each}, s_.runs(), s_.each, rest, second);
      launch("keelson::group_norm::statistics", s_.runs(),
             GroupStatistics{sums, second, 1, s_.groups, s_.groups, s_.inverse_count, mean, variance});
    } else {
      channel_sums<T>("keelson::group_norm::sums", s_.r, x, x, ValueSums<T>{x, nullptr, s_.r}, sums,
                      sums + 2 * s_.samples * s_.channels, s_.samples);
      launch("keelson::group_norm::statistics", s_.runs(),
             GroupStatistics{sums, sums + s_.channels, s_.each, s_.groups, 2 * s_.channels, s_.inverse_count, mean,
                             variance});
    }
    for_each_row<T>(label, s_.r, x, y, NormalizeGroups<T>{x, y, mean, variance, scale, shift, s_});
  }

  template <class T>
  void gradients(const BackwardWeights<ops::Tensors>& args) const {
    const T *x = args.src.template data<T>(), *g = args.diff_dst.template data<T>();
    const float *mean = args.mean.template data<float>(), *variance = args.variance.template data<float>();
    const float* scale = args.scale.template data<float>();
    float* first = args.diff_sums.template data<float>();
    float* second = first + s_.runs();
    auto* sums = static_cast<double*>(args.scratch.raw());
    const auto sums_of_channels = [&](const auto& term) {
      channel_sums<T>("keelson::group_norm::gradient_sums", s_.r, x, g, term, sums,
                      sums + 2 * sum_samples() * s_.channels, sum_samples());
      launch("keelson::group_norm::gradients", s_.channels,
             AddSampleSums{sums, sum_samples(), s_.channels, args.diff_scale.template data<float>(),
                           args.diff_shift.template data<float>()});
    };
    if constexpr (runs_on_host)
      if (s_.is_rows()) {
        auto* inverse = reinterpret_cast<float*>(static_cast<std::byte*>(args.scratch.raw()) + channel_sums_bytes());
        T* const diff_src = args.diff_src ? args.diff_src.template data<T>() : nullptr;
        return sums_of_channels(RunGradientSums<T>{x, g, mean, variance, scale, first, second, inverse, diff_src, s_});
      }
    sums_of_channels(GroupGradientSums<T>{x, g, mean, variance, s_});
    constexpr const char* label = "keelson::group_norm::means";
    if (!s_.is_rows())
      return launch(label, s_.runs(),
                    GroupMeans{sums, scale, s_.each, s_.groups, s_.channels, s_.inverse_count, first, second});
    double *others = sums + s_.runs(), *rest = others + s_.runs();
    parallel_sums(label, RunGradientTerm<T, false>{x, g, mean, variance, scale, s_.each, s_.groups, s_.epsilon},
                  s_.runs(), s_.each, rest, sums);
    parallel_sums(label, RunGradientTerm<T, true>{x, g, mean, variance, scale, s_.each, s_.groups, s_.epsilon},
                  s_.runs(), s_.each, rest, others);
    launch(label, s_.runs(), MeansOfSums{sums, others, s_.inverse_count, first, second});
  }

  template <class T>
  void gradient_of_src(const BackwardData<ops::Tensors>& args) const {
    const T *x = args.src.template data<T>(), *g = args.diff_dst.template data<T>();
    T* to = args.diff_src.template data<T>();
    const float *mean = args.mean.template data<float>(), *variance = args.variance.template data<float>();
    const float *scale = args.scale.template data<float>(), *first = args.diff_sums.template data<float>();
    const float* second = first + s_.runs();
    constexpr const char* label = "keelson::group_norm::backward_data";
    if (whole_runs())
      return for_each_block(label, s_.runs(), GradientOfRuns<T>{x, g, to, mean, variance, scale, first, second, s_},
                            s_.runs_each());
    for_each_row<T>(label, s_.r, x, aligned(g, 16) ? to : g,
                    GradientOfGroups<T>{x, g, to, mean, variance, scale, first, second, s_});
  }

  GroupNormDesc d_;
  GroupShape s_;
};

}  // namespace

Expected<GroupNorm> make(const GroupNormDesc& d) {
  if (auto why = not_strided_values("src", d.src); !why.empty()) return why;
  const Shape& shape = d.src.shape;
  if (shape.rank() < 2) return fmt::format("src is {}, without channels", to_string(d.src));
  if (d.groups < 1 || shape[1] % d.groups != 0)
    return fmt::format("{} channels cannot be divided into {} groups", shape[1], d.groups);
  const bool packed = shape.rank() == 2 ? d.src.layout.is_plain(shape) : d.src.layout.is_channels_last(shape);
  if (!packed) return fmt::format("src is {}, neither plain rows nor channels-last", to_string(d.src));
  return std::unique_ptr<GroupNorm>(std::make_unique<KokkosGroupNorm>(d));
}

}  // namespace keelson::kokkos
