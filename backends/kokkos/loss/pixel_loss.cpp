#include "engine/ops/pixel_loss.hpp"
#include "backends/common/divider.hpp"
#include "backends/kokkos/common/parallel_sum.hpp"
#include "backends/kokkos/common/vector_math.hpp"
#include "backends/kokkos/loss/sample_losses.hpp"
#include "backends/kokkos/makers.hpp"
#include "engine/base/philox.hpp"
#include "engine/ops/context.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// The pixels of a batch: class c of pixel q of sample n is at n * sample + c * channel + offset of the pixel.
struct Pixels {
  Index samples, classes, count;  ///< `count`: pixels of a sample
  Index sample, channel, even;    ///< strides; `even`: from pixel to pixel, or 0
  Strided uneven;

  explicit Pixels(const TensorDesc& d)
      : samples(d.shape[0]), classes(d.shape[1]), sample(d.layout.strides()[0]), channel(d.layout.strides()[1]) {
    const int rank = d.shape.rank();
    count = 1;
    uneven.rank = rank - 2;
    for (int i = 2; i < rank; ++i) {
      count *= d.shape[i];
      uneven.extents[i - 2] = d.shape[i];
      uneven.strides[i - 2] = d.layout.strides()[i];
    }
    even = d.layout.strides()[rank - 1];
    for (int i = 2; i + 1 < rank; ++i)
      if (d.layout.strides()[i] != d.layout.strides()[i + 1] * d.shape[i + 1]) even = 0;
  }
  KOKKOS_FUNCTION Index offset(Index n, Index q) const {
    return n * sample + (even != 0 ? q * even : uneven.offset(q));
  }
};

/// 1 if pixel q of a sample has the class, else 0; row: (sample, class).
struct HasClass {
  const std::int32_t* target;
  Index classes, count;
  KOKKOS_FUNCTION double operator()(Index row, Index q) const {
    return target[row / classes * count + q] == row % classes ? 1 : 0;
  }
};

/// The terms of the loss, and the gradient.
struct PixelTerms {
  Pixels at;
  Index whole, first;  ///< pixels of the whole sample; the first of them that is here
  const StepParams* step_params;
  const LossScale* loss_scale;
  const float *prediction, *weight, *class_weights;
  const std::int32_t* target;
  const double* counts;  ///< number of pixels by (sample, class); null: not needed
  float* diff;           ///< null: no gradient; may be `prediction`
  PixelMean mean;
  float factor, gamma, sampled;
  std::uint32_t stream;

  KOKKOS_FUNCTION double counted(Index n) const {
    double sum = 0;
    for (Index c = 0; c < at.classes; ++c) {
      const double all = counts[n * at.classes + c];
      if (class_weights[c] != 0) sum += sampled > 0 && all > sampled ? static_cast<double>(sampled) : all;
    }
    return sum;
  }

  /// The weight of a pixel of sample n in the total, without the weight of its class; 0 for padding.
  KOKKOS_FUNCTION double share(Index n) const {
    const double all = static_cast<double>(step_params->inverse_samples) * weight[n] * factor;
    if (all == 0 || mean == PixelMean::none) return all;
    const double divisor = mean == PixelMean::all ? static_cast<double>(whole) : counted(n);
    return divisor > 0 ? all / divisor : 0;
  }

  KOKKOS_FUNCTION bool drawn(Index n, Index q, std::int32_t c) const {
    if (sampled <= 0) return true;
    const auto pixel = static_cast<std::uint64_t>((step_params->sample_offset + n) * whole + first + q);
    const double u = philox::uniform({step_params->seed, stream, step_params->step}, pixel);
    return u * counts[n * at.classes + c] < static_cast<double>(sampled);
  }

  KOKKOS_FUNCTION double fill(Index offset, float value) const {
    for (Index j = 0; diff && j < at.classes; ++j) diff[offset + j * at.channel] = value;
    return static_cast<double>(value);
  }

  /// The term of pixel q of sample n: -log softmax without overflow, and without cancellation if the prediction is
  /// nearly certain. `others` is the sum of the exponentials of the other classes.
  KOKKOS_FUNCTION double operator()(Index n, Index q, double share) const {
    const Index offset = at.offset(n, q);
    const std::int32_t c = target[n * at.count + q];
    if (share == 0 || c == -1) return fill(offset, 0);
    if (c < 0 || c >= at.classes) return fill(offset, Kokkos::Experimental::quiet_NaN_v<float>);
    const double whole = share * static_cast<double>(class_weights[c]);
    if (whole == 0 || !drawn(n, q, c)) return fill(offset, 0);
    const float* x = prediction + offset;
    const float wanted = x[c * at.channel];
    float largest = x[0];
    for (Index j = 1; j < at.classes; ++j) largest = x[j * at.channel] > largest ? x[j * at.channel] : largest;
    const double own = fast_exp(wanted - largest);
    double others = 0;
    for (Index j = 0; j < at.classes; ++j) {
      const float e = fast_exp(x[j * at.channel] - largest);
      if (j != c) others += static_cast<double>(e);
      if (diff) diff[offset + j * at.channel] = e;
    }
    const double sum = own + others, wrong = others / sum;
    const double loss = wanted == largest
                            ? Kokkos::log1p(others)
                            : Kokkos::log(sum) + (static_cast<double>(largest) - static_cast<double>(wanted));
    double focus = 1, slope = 1;  // factors of the loss and of its derivative
    if (gamma > 0) {
      focus = Kokkos::pow(wrong, static_cast<double>(gamma));
      slope = focus + gamma * (own / sum) * Kokkos::pow(wrong, static_cast<double>(gamma) - 1) * loss;
    }
    if (diff) {
      const double scale = whole * slope * (loss_scale ? static_cast<double>(loss_scale->scale) : 1);
      for (Index j = 0; j < at.classes; ++j) diff[offset + j * at.channel] *= static_cast<float>(scale / sum);
      diff[offset + c * at.channel] = static_cast<float>(-scale * wrong);
    }
    return whole * focus * loss;
  }
};

/// A block of pixels of one sample: on a CPU a run of pixels, on a GPU one pixel.
struct PixelBlock {
  PixelTerms term;
  Divider by_blocks;  ///< of a sample
  Index size;         ///< pixels of a block
  double* sums;
  KOKKOS_FUNCTION void operator()(Index item) const {
    Index n = item;
    const Index first = by_blocks.split(n) * size;
    const Index end = first + size < term.at.count ? first + size : term.at.count;
    const double share = term.share(n);
    double sum = 0;
    for (Index q = first; q < end; ++q) sum += term(n, q, share);
    sums[item] = sum;
  }
};

void count_pixels(const std::int32_t* target, Index samples, Index classes, Index pixels, double* counts,
                  double* scratch) {
  parallel_sums("keelson::pixel_loss::counts", HasClass{target, classes, pixels}, samples * classes, pixels, scratch,
                counts);
}

class KokkosPixelCounts : public PixelCounts {
 public:
  explicit KokkosPixelCounts(const PixelCountsDesc& d)
      : d_(d), samples_(d.target.shape[0]), pixels_(d.target.elements() / d.target.shape[0]) {}

  Layout layout(Verb, Role role) const override {
    return role == Role::target ? d_.target.layout : d_.counts_desc().layout;
  }
  std::string name(Verb) const override { return "counts of pixels"; }
  Cost cost(Verb) const override { return {0, static_cast<double>(d_.target.bytes())}; }
  std::size_t scratch_bytes(Verb) const override {
    return static_cast<std::size_t>(samples_ * d_.classes * parallel_sum_scratch(pixels_)) * sizeof(double);
  }
  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [target, counts, scratch] = args;
    count_pixels(target.data<std::int32_t>(), samples_, d_.classes, pixels_, counts.data<double>(),
                 static_cast<double*>(scratch.raw()));
  }

 private:
  PixelCountsDesc d_;
  Index samples_, pixels_;
};

class KokkosPixelLoss : public PixelLoss {
 public:
  KokkosPixelLoss(const PixelLossDesc& d, Device& device)
      : d_(d),
        at_(d.prediction),
        blocks_(runs_on_host ? std::min(ceil_div(most_blocks, at_.samples), at_.count) : at_.count),
        row_(at_.count / d.prediction.shape[2]),
        needs_counts_(d.counts_classes()),
        class_weights_(device.allocate(static_cast<std::size_t>(at_.classes) * sizeof(float), "class weights")) {
    auto weights = d.params.class_weights;
    weights.resize(static_cast<std::size_t>(at_.classes), 1);
    device.copy_from_host(class_weights_.get(), weights.data(), weights.size() * sizeof(float));
  }

  Layout layout(Verb, Role role) const override {
    return role == Role::target ? d_.target_desc().layout : d_.prediction.layout;
  }
  std::string name(Verb) const override { return "cross_entropy of pixels"; }
  Cost cost(Verb) const override {
    return {4.0 * static_cast<double>(d_.prediction.elements()), 2.0 * static_cast<double>(d_.prediction.bytes())};
  }
  std::size_t scratch_bytes(Verb) const override {
    const Index items = at_.samples * blocks_;
    Index numbers = items + parallel_sum_scratch(items);
    if (needs_counts_) numbers += at_.samples * at_.classes * (1 + parallel_sum_scratch(at_.count));
    return static_cast<std::size_t>(numbers) * sizeof(double);
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [step_params, prediction, target, weight, loss, diff_prediction, loss_scale, scratch, counts,
                 sample_loss] = args;
    const Index items = at_.samples * blocks_;
    auto* sums = static_cast<double*>(scratch.raw());
    double* more = sums + items + parallel_sum_scratch(items);
    const auto* classes = target.data<std::int32_t>();
    if (needs_counts_ && !counts)
      count_pixels(classes, at_.samples, at_.classes, at_.count, more, more + at_.samples * at_.classes);
    const auto& p = d_.params;
    const PixelTerms term{at_,
                          d_.part.rows > 0 ? d_.part.rows * row_ : at_.count,
                          d_.part.first * row_,
                          static_cast<const StepParams*>(step_params.raw()),
                          static_cast<const LossScale*>(loss_scale.raw()),
                          prediction.data<float>(),
                          weight.data<float>(),
                          static_cast<const float*>(class_weights_.get()),
                          classes,
                          counts          ? counts.data<double>()
                          : needs_counts_ ? more
                                          : nullptr,
                          diff_prediction ? diff_prediction.data<float>() : nullptr,
                          p.mean,
                          p.factor,
                          p.focal_gamma,
                          sampled(),
                          d_.stream};
    launch("keelson::pixel_loss::pixels", items,
           PixelBlock{term, Divider(blocks_, items), ceil_div(at_.count, blocks_), sums});
    if (sample_loss)
      launch("keelson::pixel_loss::samples", at_.samples,
             SampleLosses{term.step_params, term.weight, sums, blocks_, sample_loss.data<float>()});
    parallel_sum("keelson::pixel_loss::total", Numbers{sums}, items, sums + items, loss.data<double>());
  }

 private:
  static constexpr Index most_blocks = 1024;  ///< on a CPU, for any number of threads

  float sampled() const { return d_.training ? d_.params.sampled_pixels : 0; }

  PixelLossDesc d_;
  Pixels at_;
  Index blocks_, row_;  ///< row_: pixels of a row
  bool needs_counts_;
  std::shared_ptr<void> class_weights_;
};

}  // namespace

Expected<PixelCounts> make(const PixelCountsDesc& d) {
  if (d.target.shape.rank() < 2 || d.target.elements() == 0 || d.target.dtype != DType::s32 ||
      !d.target.layout.is_plain(d.target.shape))
    return fmt::format("target {} is not plain (N, spatial...) s32", to_string(d.target));
  return std::unique_ptr<PixelCounts>(std::make_unique<KokkosPixelCounts>(d));
}

Expected<PixelLoss> make(const PixelLossDesc& d, Device& device) {
  if (auto why = not_strided_f32("prediction", d.prediction); !why.empty()) return why;
  if (d.prediction.layout.is_any())
    return std::string("prediction has no layout; the loss takes its producer's layout");
  if (d.prediction.shape.rank() < 3 || d.prediction.elements() == 0)
    return fmt::format("prediction {} is not (N, C, spatial...)", to_string(d.prediction.shape));
  const auto& weights = d.params.class_weights;
  if (!weights.empty() && static_cast<Index>(weights.size()) != d.prediction.shape[1])
    return fmt::format("{} class weights for {} classes", weights.size(), d.prediction.shape[1]);
  return std::unique_ptr<PixelLoss>(std::make_unique<KokkosPixelLoss>(d, device));
}

}  // namespace keelson::kokkos
