#include "engine/ops/shampoo.hpp"

#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/optim/optimizer_kernels.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

struct GraftDirectionBody {
  GraftParams p;
  const StepParams* step_params;
  const LossScale* loss_scale;
  const double* global_norm;
  int global_norms;
  const float* diff;
  float *exp_avg_sq, *gradient, *direction;

  // The loops read local copies, since the compiler must assume that a write changes a member.
  KOKKOS_FUNCTION void operator()(Index begin, Index end, Index apart = 1) const {
    const Index by = next_element(apart);
    const float* g = diff;
    float *v = exp_avg_sq, *x_out = gradient, *u = direction;
    if (skips(loss_scale)) {
      for (Index i = begin; i < end; i += by) x_out[i] = u[i] = 0;
      return;
    }
    const auto factor = static_cast<float>(gradient_factor(loss_scale, p.clip_norm, global_norm, global_norms));
    if (!v) {
      KEELSON_INDEPENDENT_ITERATIONS
      for (Index i = begin; i < end; i += by) x_out[i] = u[i] = g[i] * factor;
      return;
    }
    const float keep = p.method == Graft::adam ? p.beta2 : 1.0f, share = keep < 1 ? 1 - keep : 1.0f,
                correct = keep < 1 ? bias_correction(keep, step_params->step) : 1.0f, epsilon = p.epsilon;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index i = begin; i < end; i += by) {
      const float x = g[i] * factor;
      const float square = keep * v[i] + share * x * x;
      v[i] = square;
      x_out[i] = x;
      u[i] = x / (Kokkos::sqrt(square * correct) + epsilon);
    }
  }
};

struct ShampooStepBody {
  const StepParams* step_params;
  const LossScale* loss_scale;
  const double* norms;
  float beta1, momentum, decay, lr_multiplier;
  std::uint64_t start;
  const float *direction, *graft;
  float *param, *exp_avg, *momentum_buffer;

  /// The factors of the direction and of the graft.
  KOKKOS_FUNCTION void find_factors(float& of_direction, float& of_graft) const {
    of_direction = 0;
    of_graft = 1;
    if (step_params->step < start) return;
    if (norms && norms[0] == 0) return;
    of_direction = norms ? static_cast<float>(Kokkos::sqrt(norms[1] / norms[0])) : 1.0f;
    of_graft = 0;
  }

  KOKKOS_FUNCTION void operator()(Index begin, Index end, Index apart = 1) const {
    if (skips(loss_scale)) return;
    const Index by = next_element(apart);
    float of_direction = 0, of_graft = 0;
    find_factors(of_direction, of_graft);
    const float rate = step_params->learning_rate * lr_multiplier, keep1 = beta1, keep = momentum, shrink = decay,
                correct = exp_avg ? bias_correction(beta1, step_params->step) : 1.0f;
    const float *d = direction, *u = graft;
    float *w = param, *m = exp_avg, *buffer = momentum_buffer;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index i = begin; i < end; i += by) {
      // A direction that is not used may be infinite.
      float step = of_graft > 0 ? u[i] : of_direction * d[i];
      if (m) {
        step = keep1 * m[i] + (1 - keep1) * step;
        m[i] = step;
        step *= correct;
      }
      if (buffer) {
        step += keep * buffer[i];
        buffer[i] = step;
      }
      w[i] -= rate * (shrink * w[i] + step);
    }
  }
};

/// sum = decay sum + share term, row by row.
struct DecayedSumBody {
  const LossScale* loss_scale;
  const float* term;
  float* sum;
  Index columns, stride;
  float decay, share;

  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    if (skips(loss_scale)) return;
    for (Index i = begin; i < end;) {
      const Index row = i / columns, first = i - row * columns,
                  last = (row + 1) * columns < end ? columns : end - row * columns;
      const float* t = term + row * columns;
      float* s = sum + row * stride;
      KEELSON_INDEPENDENT_ITERATIONS
      for (Index c = first; c < last; ++c) s[c] = decay * s[c] + share * t[c];
      i = row * columns + last;
    }
  }
};

class KokkosGraftDirection : public GraftDirection {
 public:
  explicit KokkosGraftDirection(const GraftDirectionDesc& d) : desc_(d) {}
  Layout layout(Verb, Role) const override { return desc_.param.layout; }
  std::string name(Verb) const override { return "flat"; }
  bool merges(Verb) const override { return true; }
  Cost cost(Verb) const override {
    const auto elements = static_cast<double>(desc_.param.elements());
    return {elements * 8, elements * (desc_.params.has_state() ? 5 : 3) * sizeof(float)};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [step_params, diff, global_norm, exp_avg_sq, gradient, direction, loss_scale] = args;
    KEELSON_EXPECT(desc_.params.clip_norm <= 0 || global_norm);
    KEELSON_EXPECT(!desc_.params.has_state() || exp_avg_sq);
    for_flat_elements("keelson::shampoo::graft", gradient.stored_elements(),
                      GraftDirectionBody{desc_.params, static_cast<const StepParams*>(step_params.raw()),
                                         static_cast<const LossScale*>(loss_scale.raw()),
                                         static_cast<const double*>(global_norm.raw()),
                                         global_norm ? static_cast<int>(global_norm.elements()) : 0, diff.data<float>(),
                                         desc_.params.has_state() ? exp_avg_sq.data<float>() : nullptr,
                                         gradient.data<float>(), direction.data<float>()});
  }

 private:
  GraftDirectionDesc desc_;
};

class KokkosShampooStep : public ShampooStep {
 public:
  explicit KokkosShampooStep(const ShampooStepDesc& d) : desc_(d) {}
  Layout layout(Verb, Role) const override { return desc_.param.layout; }
  std::string name(Verb) const override { return "flat"; }
  bool merges(Verb) const override { return true; }
  Cost cost(Verb) const override {
    const auto elements = static_cast<double>(desc_.param.elements());
    const int arrays = 4 + (desc_.beta1 > 0 ? 2 : 0) + (desc_.momentum > 0 ? 2 : 0);
    return {elements * 9, elements * arrays * sizeof(float)};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [step_params, direction, graft, norms, param, exp_avg, momentum_buffer, loss_scale] = args;
    KEELSON_EXPECT(desc_.beta1 <= 0 || exp_avg);
    KEELSON_EXPECT(desc_.momentum <= 0 || momentum_buffer);
    for_flat_elements(
        "keelson::shampoo::step", param.stored_elements(),
        ShampooStepBody{static_cast<const StepParams*>(step_params.raw()),
                        static_cast<const LossScale*>(loss_scale.raw()), static_cast<const double*>(norms.raw()),
                        desc_.beta1, desc_.momentum, desc_.decoupled_decay, desc_.lr_multiplier, desc_.start,
                        direction.data<float>(), graft.data<float>(), param.data<float>(),
                        desc_.beta1 > 0 ? exp_avg.data<float>() : nullptr,
                        desc_.momentum > 0 ? momentum_buffer.data<float>() : nullptr});
  }

 private:
  ShampooStepDesc desc_;
};

class KokkosDecayedSum : public DecayedSum {
 public:
  explicit KokkosDecayedSum(const DecayedSumDesc& d) : desc_(d) {}
  Layout layout(Verb, Role r) const override { return r == Role::sums ? desc_.sum.layout : desc_.term().layout; }
  std::string name(Verb) const override { return "rows"; }
  Cost cost(Verb) const override {
    const auto elements = static_cast<double>(desc_.sum.elements());
    return {elements * 3, elements * 3 * sizeof(float)};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [term, sum, loss_scale] = args;
    const Index columns = desc_.sum.shape[1];
    for_each_block(
        "keelson::decayed_sum", desc_.sum.elements(),
        DecayedSumBody{static_cast<const LossScale*>(loss_scale.raw()), term.data<float>(), sum.data<float>(), columns,
                       desc_.sum.shape[0] > 1 ? desc_.sum.layout.strides()[0] : columns, desc_.decay,
                       desc_.decay < 1 ? 1 - desc_.decay : 1.0f});
  }

 private:
  DecayedSumDesc desc_;
};

std::string unsupported_by_shampoo(const TensorDesc& param) {
  if (param.dtype != DType::f32) return fmt::format("the parameter is {}, not f32", to_string(param.dtype));
  if (!param.layout.is_dense(param.shape)) return "the parameter needs a dense layout: " + param.layout.to_string();
  return "";
}

}  // namespace

Expected<GraftDirection> make(const GraftDirectionDesc& d) {
  if (const auto why = unsupported_by_shampoo(d.param); !why.empty()) return why;
  if (d.params.has_state() && !(d.params.epsilon > 0))
    return fmt::format("epsilon is {}, expected a number above 0", d.params.epsilon);
  return std::unique_ptr<GraftDirection>(std::make_unique<KokkosGraftDirection>(d));
}

Expected<ShampooStep> make(const ShampooStepDesc& d) {
  if (const auto why = unsupported_by_shampoo(d.param); !why.empty()) return why;
  return std::unique_ptr<ShampooStep>(std::make_unique<KokkosShampooStep>(d));
}

Expected<DecayedSum> make(const DecayedSumDesc& d) {
  if (d.sum.dtype != DType::f32) return fmt::format("sum is {}, not f32", to_string(d.sum.dtype));
  if (d.sum.shape.rank() != 2 || !d.sum.layout.is_strided() || (d.sum.shape[1] > 1 && d.sum.layout.strides()[1] != 1))
    return fmt::format("sum is {}, expected a matrix by rows", to_string(d.sum));
  return std::unique_ptr<DecayedSum>(std::make_unique<KokkosDecayedSum>(d));
}

}  // namespace keelson::kokkos
