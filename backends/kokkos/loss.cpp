#include "backends/kokkos/common.hpp"
#include "backends/kokkos/makers.hpp"
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
  Index rows, features, rows_per_sample;

  /// What one unit of row r's loss counts for in the total; 0 for padding, whose prediction may be anything.
  KOKKOS_FUNCTION double share(Index r) const {
    return static_cast<double>(state->loss_scale) * weight[r / rows_per_sample] / static_cast<double>(rows_per_sample);
  }

  /// log(sum exp(x)) = max + log(sum exp(x - max)), which cannot overflow.
  KOKKOS_FUNCTION double log_sum_exp(const float* x) const {
    float largest = x[0];
    for (Index f = 1; f < features; ++f) largest = x[f] > largest ? x[f] : largest;
    double sum = 0;
    for (Index f = 0; f < features; ++f) sum += Kokkos::exp(static_cast<double>(x[f]) - largest);
    return static_cast<double>(largest) + Kokkos::log(sum);
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

  KOKKOS_FUNCTION double row_loss(Index r) const {
    const float* x = prediction + r * features;
    if (p.kind == LossKind::cross_entropy) {
      const Index c = classes[r / rows_per_sample];
      if (c < 0 || c >= features)
        return Kokkos::Experimental::quiet_NaN_v<double>;  // no such class: stops training visibly
      return log_sum_exp(x) - x[c];
    }
    const float* t = target + r / rows_per_sample * features;
    double sum = 0;
    for (Index f = 0; f < features; ++f) sum += one(static_cast<double>(x[f]) - t[f]);
    return sum / static_cast<double>(features);
  }

  KOKKOS_FUNCTION void row_gradient(Index r, double share, float* diff) const {
    const float* x = prediction + r * features;
    if (p.kind == LossKind::cross_entropy) {
      const Index c = classes[r / rows_per_sample];
      const double log_sum = log_sum_exp(x);
      for (Index f = 0; f < features; ++f)
        diff[f] = static_cast<float>(share * (Kokkos::exp(x[f] - log_sum) - (f == c ? 1.0 : 0.0)));
      return;
    }
    const float* t = target + r / rows_per_sample * features;
    const double scale = share / static_cast<double>(features);
    for (Index f = 0; f < features; ++f) diff[f] = static_cast<float>(scale * slope(static_cast<double>(x[f]) - t[f]));
  }
};

Index block_rows(Index rows) { return ceil_div(rows, max_blocks); }

void forward_blocks(const Operands& o, double* sums) {
  constexpr const char* label = "keelson::loss::forward";
  const Index per_block = block_rows(o.rows);
  launch(
      label, ceil_div(o.rows, per_block), KOKKOS_LAMBDA(Index b) {
        const Index end = (b + 1) * per_block < o.rows ? (b + 1) * per_block : o.rows;
        double sum = 0;
        for (Index r = b * per_block; r < end; ++r) {
          const double share = o.share(r);
          if (share != 0) sum += share * o.row_loss(r);
        }
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

void backward_rows(const Operands& o, float* diff) {
  constexpr const char* label = "keelson::loss::backward";
  launch(
      label, o.rows, KOKKOS_LAMBDA(Index r) {
        const double share = o.share(r);
        float* row = diff + r * o.features;
        if (share != 0)
          o.row_gradient(r, share, row);
        else
          for (Index f = 0; f < o.features; ++f) row[f] = 0;
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
               const Tensor& loss) override {
    auto* sums = static_cast<double*>(sums_.get());
    forward_blocks(operands(state, prediction, target, weight), sums);
    add_blocks(sums, blocks_, loss.data<double>());
  }

  void backward(const Tensor& state, const Tensor& prediction, const Tensor& target, const Tensor& weight,
                const Tensor& diff_prediction) override {
    backward_rows(operands(state, prediction, target, weight), diff_prediction.data<float>());
  }

 private:
  Operands operands(const Tensor& state, const Tensor& prediction, const Tensor& target, const Tensor& weight) const {
    const bool classes = desc_.params.kind == LossKind::cross_entropy;
    return {desc_.params,
            static_cast<const StepState*>(state.raw()),
            prediction.data<float>(),
            classes ? nullptr : target.data<float>(),
            classes ? target.data<std::int32_t>() : nullptr,
            weight.data<float>(),
            desc_.prediction.shape[0],
            desc_.prediction.shape[1],
            desc_.rows_per_sample};
  }

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
  const auto wanted = classes ? Shape{samples} : Shape{samples, shape[1]};
  if (!(d.target.shape == wanted) || d.target.dtype != (classes ? DType::s32 : DType::f32))
    return fmt::format("target is {} {}, expected {} {}", to_string(d.target.shape), to_string(d.target.dtype),
                       to_string(wanted), classes ? "s32" : "f32");
  if (!d.prediction.layout.is_any() && !d.prediction.layout.is_plain(shape))
    return std::string("prediction is not plain");
  if (!d.target.layout.is_any() && !d.target.layout.is_plain(wanted)) return std::string("target is not plain");
  return std::unique_ptr<Loss>(std::make_unique<KokkosLoss>(d, device));
}

}  // namespace keelson::kokkos
