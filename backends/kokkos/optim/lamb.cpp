#include "engine/ops/lamb.hpp"

#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/optim/optimizer_kernels.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

struct LambDirectionBody {
  LambParams p;
  const StepParams* step_params;
  const LossScale* loss_scale;
  const double* global_norm;
  int global_norms;
  const float *diff, *param;
  float *exp_avg, *exp_avg_sq, *direction;

  // The loops read local copies, since the compiler must assume that a write changes a member.
  KOKKOS_FUNCTION void operator()(Index begin, Index end, Index apart = 1) const {
    const Index by = next_element(apart);
    float* u = direction;
    if (skips(loss_scale)) {
      for (Index i = begin; i < end; i += by) u[i] = 0;
      return;
    }
    const auto factor = static_cast<float>(gradient_factor(loss_scale, p.clip_norm, global_norm, global_norms));
    const float correct1 = bias_correction(p.beta1, step_params->step),
                correct2 = bias_correction(p.beta2, step_params->step);
    const float beta1 = p.beta1, beta2 = p.beta2, epsilon = p.epsilon, l2 = p.weight_decay, decay = p.decoupled_decay;
    const float share1 = p.average_gradients ? 1 - beta1 : 1.0f;
    const float *g = diff, *w = param;
    float *m1 = exp_avg, *m2 = exp_avg_sq;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index i = begin; i < end; i += by) {
      const float x = g[i] * factor + l2 * w[i];
      const float m = beta1 * m1[i] + share1 * x;
      const float v = beta2 * m2[i] + (1 - beta2) * x * x;
      m1[i] = m;
      m2[i] = v;
      u[i] = m * correct1 / (Kokkos::sqrt(v * correct2) + epsilon) + decay * w[i];
    }
  }
};

struct LambStepBody {
  const StepParams* step_params;
  const LossScale* loss_scale;
  float lr_multiplier, norm_min, norm_max;
  const double* norms;
  const float* direction;
  float* param;

  KOKKOS_FUNCTION double trust_ratio() const {
    if (!norms) return 1;
    double weights = Kokkos::sqrt(norms[0]);
    const double length = Kokkos::sqrt(norms[1]);
    if (weights == 0 || length == 0) return 1;
    if (weights < norm_min) weights = norm_min;
    if (weights > norm_max) weights = norm_max;
    return weights / length;
  }

  KOKKOS_FUNCTION void operator()(Index begin, Index end, Index apart = 1) const {
    if (skips(loss_scale)) return;
    const Index by = next_element(apart);
    const auto rate =
        static_cast<float>(static_cast<double>(step_params->learning_rate) * lr_multiplier * trust_ratio());
    const float* u = direction;
    float* w = param;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index i = begin; i < end; i += by) w[i] -= rate * u[i];
  }
};

class KokkosLambDirection : public LambDirection {
 public:
  explicit KokkosLambDirection(const LambDirectionDesc& d) : desc_(d) {}
  Layout layout(Verb, Role) const override { return desc_.param.layout; }
  std::string name(Verb) const override { return "flat"; }
  bool merges(Verb) const override { return true; }
  Cost cost(Verb) const override {
    const auto elements = static_cast<double>(desc_.param.elements());
    return {elements * 15, elements * 7 * sizeof(float)};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [step_params, diff, global_norm, param, exp_avg, exp_avg_sq, direction, loss_scale] = args;
    KEELSON_EXPECT(desc_.params.clip_norm <= 0 || global_norm);
    for_flat_elements("keelson::lamb::direction", param.stored_elements(),
                      LambDirectionBody{desc_.params, static_cast<const StepParams*>(step_params.raw()),
                                        static_cast<const LossScale*>(loss_scale.raw()),
                                        static_cast<const double*>(global_norm.raw()),
                                        global_norm ? static_cast<int>(global_norm.elements()) : 0, diff.data<float>(),
                                        param.data<float>(), exp_avg.data<float>(), exp_avg_sq.data<float>(),
                                        direction.data<float>()});
  }

 private:
  LambDirectionDesc desc_;
};

class KokkosLambStep : public LambStep {
 public:
  explicit KokkosLambStep(const LambStepDesc& d) : desc_(d) {}
  Layout layout(Verb, Role) const override { return desc_.param.layout; }
  std::string name(Verb) const override { return "flat"; }
  bool merges(Verb) const override { return true; }
  Cost cost(Verb) const override {
    const auto elements = static_cast<double>(desc_.param.elements());
    return {elements * 2, elements * 3 * sizeof(float)};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [step_params, direction, norms, param, loss_scale] = args;
    for_flat_elements(
        "keelson::lamb::step", param.stored_elements(),
        LambStepBody{static_cast<const StepParams*>(step_params.raw()), static_cast<const LossScale*>(loss_scale.raw()),
                     desc_.lr_multiplier, desc_.norm_min, desc_.norm_max, static_cast<const double*>(norms.raw()),
                     direction.data<float>(), param.data<float>()});
  }

 private:
  LambStepDesc desc_;
};

std::string unsupported_parameter(const TensorDesc& param) {
  if (param.dtype != DType::f32) return fmt::format("the parameter is {}, not f32", to_string(param.dtype));
  if (!param.layout.is_dense(param.shape)) return "the parameter needs a dense layout: " + param.layout.to_string();
  return "";
}

}  // namespace

Expected<LambDirection> make(const LambDirectionDesc& d) {
  if (const auto why = unsupported_parameter(d.param); !why.empty()) return why;
  if (!(d.params.epsilon > 0)) return fmt::format("epsilon is {}, expected a number above 0", d.params.epsilon);
  return std::unique_ptr<LambDirection>(std::make_unique<KokkosLambDirection>(d));
}

Expected<LambStep> make(const LambStepDesc& d) {
  if (const auto why = unsupported_parameter(d.param); !why.empty()) return why;
  return std::unique_ptr<LambStep>(std::make_unique<KokkosLambStep>(d));
}

}  // namespace keelson::kokkos
