#include "backends/kokkos/common.hpp"
#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/vector_math.hpp"
#include "engine/ops/context.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

constexpr Index max_blocks = 1024;  ///< of rows, summed one by one and then in order, whatever the number of threads

struct Operands {
  LossParams p;
  const StepState* state;
  const float* prediction;
  const float* target;
  const std::int32_t* classes;
  const float* weight;
  float* diff;  ///< null: no gradient; may be `prediction`
  Index rows, features, rows_per_sample;
  bool class_per_row;

  /// What one unit of row r's loss counts for in the total; 0 for padding, whose prediction may be anything.
  KOKKOS_FUNCTION double share(Index r) const {
    const double all = static_cast<double>(state->loss_scale) * weight[r / rows_per_sample];
    return p.sum_rows ? all : all / static_cast<double>(rows_per_sample);
  }

  KOKKOS_FUNCTION double one(double d) const {
    if (p.kind == LossKind::mse) return d * d;
    const double a = Kokkos::fabs(d), delta = p.delta;
    if (p.kind == LossKind::mae) return a;
    return a <= delta ? 0.5 * d * d : delta * (a - 0.5 * delta);
  }

  KOKKOS_FUNCTION double slope(double d) const {
    if (p.kind == LossKind::mse) return 2 * d;
    const double limit = p.kind == LossKind::mae ? 0.0 : static_cast<double>(p.delta);
    if (p.kind == LossKind::huber && Kokkos::fabs(d) <= limit) return d;
    const double unit = d > 0 ? 1.0 : d < 0 ? -1.0 : d;  // a NaN stays a NaN
    return p.kind == LossKind::huber ? limit * unit : unit;
  }

  KOKKOS_FUNCTION double difference_row(Index r, double share) const {
    const float *x = prediction + r * features, *t = target + r / rows_per_sample * features;
    const double scale = share / static_cast<double>(features);
    double sum = 0;
    for (Index f = 0; f < features; ++f) {
      const double d = static_cast<double>(x[f]) - t[f];
      sum += one(d);
      if (diff) diff[r * features + f] = static_cast<float>(scale * state->scaling.scale * slope(d));
    }
    return scale * sum;
  }

  KOKKOS_FUNCTION void zero_row(Index r) const {
    if (!diff) return;
    for (Index f = 0; f < features; ++f) diff[r * features + f] = 0;
  }

  /// -log softmax(x)[c] = log(sum exp(x - max)) + max - x[c], which cannot overflow, and its gradient, which is softmax
  /// less the unit vector of c. The row stays in the cache from its first reading to its last writing.
  KOKKOS_FUNCTION double class_row(Index r, double share) const {
    const Index c = classes[class_per_row ? r : r / rows_per_sample];
    if (c == -1) return zero_row(r), 0.0;
    const float* x = prediction + r * features;
    const float largest = maximum(x), wanted = c >= 0 && c < features ? x[c] : Kokkos::Experimental::quiet_NaN_v<float>;
    const double sum =
        diff ? exponentials<true>(x, largest, diff + r * features) : exponentials<false>(x, largest, nullptr);
    if (diff) {
      float* d = diff + r * features;
      const double whole = share * state->scaling.scale;
      const auto scale = static_cast<float>(whole / sum);
      KEELSON_INDEPENDENT_ITERATIONS
      for (Index f = 0; f < features; ++f) d[f] *= scale;
      // By itself, since softmax - 1 cancels where the network is sure.
      if (c >= 0 && c < features)
        d[c] = static_cast<float>(whole * (Kokkos::exp(static_cast<double>(wanted) - largest) / sum - 1));
    }
    return share * (Kokkos::log(sum) + (static_cast<double>(largest) - wanted));
  }

  static constexpr int lanes = runs_on_host ? 16 : 1;

  KOKKOS_FUNCTION float maximum(const float* x) const {
    float most[lanes];
    for (int l = 0; l < lanes; ++l) most[l] = x[0];
    Index f = 0;
    for (; f + lanes <= features; f += lanes)
      for (int l = 0; l < lanes; ++l) most[l] = x[f + l] > most[l] ? x[f + l] : most[l];
    for (; f < features; ++f) most[0] = x[f] > most[0] ? x[f] : most[0];
    for (int l = 1; l < lanes; ++l) most[0] = most[l] > most[0] ? most[l] : most[0];
    return most[0];
  }

  /// Their sum, in double after at most 64 additions in float; `store`: writes them, too.
  template <bool store>
  KOKKOS_FUNCTION double exponentials(const float* x, float largest, float* to) const {
    double sum = 0;
    Index f = 0;
    while (f + lanes <= features) {
      float part[lanes] = {};
      const Index left = (features - f) / lanes, turns = left < 64 ? left : 64;
      for (Index turn = 0; turn < turns; ++turn, f += lanes)
        for (int l = 0; l < lanes; ++l) {
          const float e = fast_exp(x[f + l] - largest);
          if constexpr (store) to[f + l] = e;
          part[l] += e;
        }
      for (int l = 0; l < lanes; ++l) sum += static_cast<double>(part[l]);
    }
    for (; f < features; ++f) {
      const float e = fast_exp(x[f] - largest);
      if constexpr (store) to[f] = e;
      sum += static_cast<double>(e);
    }
    return sum;
  }

  KOKKOS_FUNCTION double row(Index r) const {
    const double s = share(r);
    if (s == 0) return zero_row(r), 0.0;
    return p.kind == LossKind::cross_entropy ? class_row(r, s) : difference_row(r, s);
  }
};

Index block_rows(Index rows) { return ceil_div(rows, max_blocks); }

void loss_of_blocks(const Operands& o, double* sums) {
  constexpr const char* label = "keelson::loss::rows";
  const Index per_block = block_rows(o.rows);
  launch(
      label, ceil_div(o.rows, per_block), KOKKOS_LAMBDA(Index b) {
        const Index end = (b + 1) * per_block < o.rows ? (b + 1) * per_block : o.rows;
        double sum = 0;
        for (Index r = b * per_block; r < end; ++r) sum += o.row(r);
        sums[b] = sum;
      });
}

void add_blocks(const double* sums, Index blocks, double* loss) {
  constexpr const char* label = "keelson::loss::total";
  launch(
      label, 1, KOKKOS_LAMBDA(Index) {
        double sum = 0;
        for (Index b = 0; b < blocks; ++b) sum += sums[b];
        *loss = sum;
      });
}

class KokkosLoss : public Loss {
 public:
  KokkosLoss(const LossDesc& d, Device& device)
      : desc_(d),
        blocks_(ceil_div(d.prediction.shape[0], block_rows(d.prediction.shape[0]))),
        sums_(device.allocate(static_cast<std::size_t>(blocks_) * sizeof(double), "loss")) {}

  Layout layout(Verb, Role) const override { return Layout::plain(desc_.prediction.shape); }
  std::string name(Verb) const override { return std::string(to_string(desc_.params.kind)); }
  Cost cost(Verb) const override {
    return {4.0 * static_cast<double>(desc_.prediction.elements()),
            2.0 * static_cast<double>(desc_.prediction.bytes())};
  }

  void forward(const Tensor& state, const Tensor& prediction, const Tensor& target, const Tensor& weight,
               const Tensor& loss, const Tensor& diff_prediction) override {
    const bool classes = desc_.params.kind == LossKind::cross_entropy;
    const auto rows = desc_.prediction.shape[0], per_sample = desc_.rows_per_sample;
    const Operands o{desc_.params,
                     static_cast<const StepState*>(state.raw()),
                     prediction.data<float>(),
                     classes ? nullptr : target.data<float>(),
                     classes ? target.data<std::int32_t>() : nullptr,
                     weight.data<float>(),
                     diff_prediction ? diff_prediction.data<float>() : nullptr,
                     rows,
                     desc_.prediction.shape[1],
                     per_sample,
                     classes && target.elements() == rows};
    auto* sums = static_cast<double*>(sums_.get());
    loss_of_blocks(o, sums);
    add_blocks(sums, blocks_, loss.data<double>());
  }

 private:
  LossDesc desc_;
  Index blocks_;
  std::shared_ptr<void> sums_;
};

}  // namespace

Made<Loss> make_loss(const LossDesc& d, Device& device) {
  if (auto why = not_strided_f32("prediction", d.prediction); !why.empty()) return why;
  const auto& shape = d.prediction.shape;
  const bool classes = d.params.kind == LossKind::cross_entropy;
  if (shape.rank() != 2 || shape[0] < 1 || shape[1] < 1 || d.rows_per_sample < 1 || shape[0] % d.rows_per_sample != 0)
    return fmt::format("prediction {} is not (rows, features) with {} rows per sample", to_string(shape),
                       d.rows_per_sample);
  const auto samples = shape[0] / d.rows_per_sample;
  const auto wanted = !classes                     ? Shape{samples, shape[1]}
                      : d.target.shape.rank() == 2 ? Shape{samples, d.rows_per_sample}
                                                   : Shape{samples};
  if (!(d.target.shape == wanted) || d.target.dtype != (classes ? DType::s32 : DType::f32))
    return fmt::format("target is {} {}, expected {} {}", to_string(d.target.shape), to_string(d.target.dtype),
                       to_string(wanted), classes ? "s32" : "f32");
  if (!d.prediction.layout.is_any() && !d.prediction.layout.is_plain(shape))
    return std::string("prediction is not plain");
  if (!d.target.layout.is_any() && !d.target.layout.is_plain(wanted)) return std::string("target is not plain");
  return std::unique_ptr<Loss>(std::make_unique<KokkosLoss>(d, device));
}

}  // namespace keelson::kokkos
