#include "engine/ops/update.hpp"

#include "backends/common/divider.hpp"
#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/optim/optimizer_kernels.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// The factors of one step. Each work item computes them again: these are few operations compared with its elements,
/// and the host need not read from the device.
struct Coefficients {
  float gradient;            ///< first, g is multiplied by this (loss scale, global clip) ...
  float decay;               ///< ... then decay * w is added ...
  float local;               ///< ... then g is multiplied by this (LARC, LARS)
  float rate;                ///< factor of the step: the learning rate, or 1 if the momentum contains the learning rate
  float keep;                ///< first, w is multiplied by this (decoupled decay)
  float correct1, correct2;  ///< Adam: 1 / (1 - beta^t)
  float averaging;           ///< schedule-free: weight of this step's point in the mean
};

struct Step {
  UpdateParams p;
  const StepParams* step_params;
  const LossScale* loss_scale;
  const double *global_norm, *norms;
  int global_norms;
  const float* diff;
  float *param, *moment1, *moment2;

  /// Local learning rate of LARC. The norm is that of the gradient times `scaled` (loss scale, global clip), without
  /// weight decay.
  KOKKOS_FUNCTION double larc(double scaled, double rate) const {
    if (p.larc == LarcMode::none) return 1;
    const double weights = Kokkos::sqrt(norms[0]), gradient = scaled * Kokkos::sqrt(norms[1]);
    const double local = weights > 0 && gradient > 0 ? p.larc_eta * weights / gradient : p.larc_floor;
    if (p.larc == LarcMode::scale) return local;
    const double ratio = local / (p.larc_relative ? rate : 1.0);
    return ratio < 1 ? ratio : 1.0;
  }

  /// LARS's local rate. A NaN in a norm makes the whole parameter NaN.
  KOKKOS_FUNCTION double lars(double scaled) const {
    if (!norms) return 1;
    const double weights = Kokkos::sqrt(norms[0]), gradient = scaled * Kokkos::sqrt(norms[1]);
    if (weights == 0 || gradient == 0) return 1;
    return p.lars_eta * weights / (gradient + p.weight_decay * weights + p.epsilon);
  }

  KOKKOS_FUNCTION Coefficients coefficients() const {
    const double scaled = gradient_factor(loss_scale, p.clip_norm, global_norm, global_norms);
    const double rate = static_cast<double>(step_params->learning_rate) * p.lr_multiplier;
    Coefficients c{};
    c.gradient = static_cast<float>(scaled);
    c.decay = p.weight_decay;
    const bool rate_in_momentum = p.kind == UpdateKind::lars && p.rate_in_momentum;
    const double local = p.kind == UpdateKind::lars ? lars(scaled) : larc(scaled, rate);
    c.local = static_cast<float>(rate_in_momentum ? rate * local : local);
    c.rate = static_cast<float>(rate_in_momentum ? 1.0 : rate);
    c.keep = static_cast<float>(1 - rate * p.decoupled_decay);
    c.averaging = step_params->averaging_weight;
    if (c.averaging == 0 && step_params->learning_rate > 0)
      c.averaging = static_cast<float>(1 / (static_cast<double>(step_params->step) + 1));
    if (p.kind == UpdateKind::adam || p.kind == UpdateKind::schedule_free) {
      c.correct1 = bias_correction(p.beta1, step_params->step);
      c.correct2 = bias_correction(p.beta2, step_params->step);
    }
    return c;
  }

  // The loops read local copies, since the compiler must assume that a write changes a member.
  KOKKOS_FUNCTION void sgd(const Coefficients c, Index begin, Index end, Index apart) const {
    const Index by = next_element(apart);
    const float* g_in = diff;
    float* w = param;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index i = begin; i < end; i += by) {
      const float g = (g_in[i] * c.gradient + c.decay * w[i]) * c.local;
      w[i] = w[i] * c.keep - c.rate * g;
    }
  }

  KOKKOS_FUNCTION void momentum(const Coefficients c, Index begin, Index end, Index apart) const {
    const Index by = next_element(apart);
    const float along = p.nesterov ? 1.0f : 0.0f;  // step = along * g + ahead * v
    const float ahead = p.nesterov ? p.momentum : 1.0f, beta = p.momentum;
    const float* g_in = diff;
    float *w = param, *m1 = moment1;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index i = begin; i < end; i += by) {
      const float g = (g_in[i] * c.gradient + c.decay * w[i]) * c.local;
      const float v = beta * m1[i] + g;
      m1[i] = v;
      w[i] = w[i] * c.keep - c.rate * (along * g + ahead * v);
    }
  }

  KOKKOS_FUNCTION void adam(const Coefficients c, Index begin, Index end, Index apart) const {
    const Index by = next_element(apart);
    const float beta1 = p.beta1, beta2 = p.beta2, epsilon = p.epsilon;
    const float* g_in = diff;
    float *w = param, *m1 = moment1, *m2 = moment2;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index i = begin; i < end; i += by) {
      const float g = (g_in[i] * c.gradient + c.decay * w[i]) * c.local;
      const float m = beta1 * m1[i] + (1 - beta1) * g;
      const float v = beta2 * m2[i] + (1 - beta2) * g * g;
      m1[i] = m;
      m2[i] = v;
      w[i] = w[i] * c.keep - c.rate * (m * c.correct1) / (Kokkos::sqrt(v * c.correct2) + epsilon);
    }
  }

  KOKKOS_FUNCTION void lion(const Coefficients c, Index begin, Index end, Index apart) const {
    const Index by = next_element(apart);
    const float beta1 = p.beta1, beta2 = p.beta2;
    const float* g_in = diff;
    float *w = param, *m1 = moment1;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index i = begin; i < end; i += by) {
      const float g = (g_in[i] * c.gradient + c.decay * w[i]) * c.local;
      const float m = m1[i], direction = beta1 * m + (1 - beta1) * g;
      const float step = direction > 0 ? c.rate : direction < 0 ? -c.rate : direction;  // a NaN stays
      m1[i] = beta2 * m + (1 - beta2) * g;
      w[i] = w[i] * c.keep - step;
    }
  }

  KOKKOS_FUNCTION void schedule_free(const Coefficients c, Index begin, Index end, Index apart) const {
    const Index by = next_element(apart);
    const float beta2 = p.beta2, epsilon = p.epsilon, decay = p.decoupled_decay;
    const float to_point = c.rate * (1 - p.beta1), to_mean = c.averaging / (1 - p.beta1);
    const float* g_in = diff;
    float *w = param, *m1 = moment1, *m2 = moment2;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index i = begin; i < end; i += by) {
      const float g = (g_in[i] * c.gradient + c.decay * w[i]) * c.local;
      const float v = beta2 * m2[i] + (1 - beta2) * g * g;
      const float u = g / (Kokkos::sqrt(v * c.correct2) + epsilon) + decay * (w[i] + m1[i]);
      const float q = m1[i] - to_point * u;
      m1[i] = (1 - c.averaging) * q;
      m2[i] = v;
      w[i] = w[i] + to_mean * q;
    }
  }

  KOKKOS_FUNCTION void operator()(Index begin, Index end, Index apart = 1) const {
    if (skips(loss_scale)) return;
    const Coefficients c = coefficients();
    switch (p.kind) {
      case UpdateKind::adam:
        return adam(c, begin, end, apart);
      case UpdateKind::lion:
        return lion(c, begin, end, apart);
      case UpdateKind::schedule_free:
        return schedule_free(c, begin, end, apart);
      case UpdateKind::sgd:
      case UpdateKind::lars:
        return moment1 ? momentum(c, begin, end, apart) : sgd(c, begin, end, apart);
    }
  }
};

/// Row m of the gradient belongs to row rows[m] of the parameter: the same step, with an offset between the arrays.
struct StepRows {
  Step step;
  const std::int32_t* rows;
  Index width;
  Divider by_items;  ///< work items of a row
  KOKKOS_FUNCTION void operator()(Index m) const {
    const Index i = by_items.split(m);
    if (rows[m] < 0) return;
    Step s = step;
    const Index to = rows[m] * width;
    s.diff += m * width;
    s.param += to;
    if (s.moment1) s.moment1 += to;
    if (s.moment2) s.moment2 += to;
    s(i, width, by_items.divisor());
  }
};

class KokkosUpdate : public Update {
 public:
  explicit KokkosUpdate(const UpdateDesc& d) : desc_(d) {}
  Layout layout(Verb, Role) const override { return desc_.param.layout; }
  std::string name(Verb) const override { return desc_.rows > 0 ? "rows" : "flat"; }
  bool merges(Verb) const override { return desc_.rows == 0; }
  Cost cost(Verb) const override {
    const auto elements =
        static_cast<double>(desc_.rows > 0 ? desc_.rows * desc_.param.shape[1] : desc_.param.elements());
    const double bytes = elements * sizeof(float);
    const int moments = moment_count(desc_.params);
    return {elements * (4 + 5 * moments), bytes * (3 + 2 * moments)};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [step_params, diff, rows, global_norm, norms, param, moment1, moment2, loss_scale] = args;
    constexpr const char* label = "keelson::update::forward";
    const auto& p = desc_.params;
    const int moments = moment_count(p);
    KEELSON_EXPECT(p.clip_norm <= 0 || global_norm);
    KEELSON_EXPECT(p.larc == LarcMode::none || norms);
    KEELSON_EXPECT(moments < 1 || moment1);
    KEELSON_EXPECT(moments < 2 || moment2);
    const Step step{p,
                    static_cast<const StepParams*>(step_params.raw()),
                    static_cast<const LossScale*>(loss_scale.raw()),
                    static_cast<const double*>(global_norm.raw()),
                    static_cast<const double*>(norms.raw()),
                    global_norm ? static_cast<int>(global_norm.elements()) : 0,
                    diff.data<float>(),
                    param.data<float>(),
                    moments > 0 ? moment1.data<float>() : nullptr,
                    moments > 1 ? moment2.data<float>() : nullptr};
    if (desc_.rows > 0) {
      const Index width = desc_.param.shape[1], items = runs_on_host ? 1 : ceil_div(width, 8);
      launch(label, desc_.rows * items,
             StepRows{step, rows.data<std::int32_t>(), width, Divider(items, desc_.rows * items)});
    } else {
      for_flat_elements(label, param.stored_elements(), step);
    }
  }

 private:
  UpdateDesc desc_;
};

}  // namespace

Expected<Update> make(const UpdateDesc& d) {
  if (d.param.dtype != DType::f32) return fmt::format("the parameter is {}, not f32", to_string(d.param.dtype));
  if (!d.param.layout.is_dense(d.param.shape))
    return std::string("the parameter needs a dense layout: " + d.param.layout.to_string());
  if (d.rows > 0 && (d.param.shape.rank() != 2 || !d.param.layout.is_plain(d.param.shape)))
    return std::string("a gradient by rows needs a plain matrix as its parameter");
  if (d.rows > 0 && (d.params.larc != LarcMode::none || d.params.kind == UpdateKind::lars))
    return std::string("LARC and LARS need the norm of the whole parameter, which a gradient by rows does not touch");
  if (d.params.kind == UpdateKind::lars && d.params.larc != LarcMode::none)
    return std::string("LARS has a local rate of its own: not with LARC");
  return std::unique_ptr<Update>(std::make_unique<KokkosUpdate>(d));
}

}  // namespace keelson::kokkos
