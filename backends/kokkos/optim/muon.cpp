#include "engine/ops/muon.hpp"

#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/optim/optimizer_kernels.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

struct MuonDirectionBody {
  float momentum, ahead;  ///< direction = (1 - ahead) x + ahead m
  float clip_norm;
  const LossScale* loss_scale;
  const double* global_norm;
  int global_norms;
  const float* diff;
  float *moment, *direction;

  // The loops read local copies, since the compiler must assume that a write changes a member.
  KOKKOS_FUNCTION void operator()(Index begin, Index end, Index apart = 1) const {
    const Index by = next_element(apart);
    float* u = direction;
    if (skips(loss_scale)) {
      for (Index i = begin; i < end; i += by) u[i] = 0;
      return;
    }
    const auto factor = static_cast<float>(gradient_factor(loss_scale, clip_norm, global_norm, global_norms));
    const float keep = momentum, along = ahead;
    const float* g = diff;
    float* m1 = moment;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index i = begin; i < end; i += by) {
      const float x = g[i] * factor;
      const float m = keep * m1[i] + (1 - keep) * x;
      m1[i] = m;
      u[i] = (1 - along) * x + along * m;
    }
  }
};

struct MuonStepBody {
  const StepParams* step_params;
  const LossScale* loss_scale;
  float lr_multiplier, rate, decay;
  const float* direction;
  float* param;

  KOKKOS_FUNCTION void operator()(Index begin, Index end, Index apart = 1) const {
    if (skips(loss_scale)) return;
    const Index by = next_element(apart);
    const double lr = static_cast<double>(step_params->learning_rate) * lr_multiplier;
    const auto keep = static_cast<float>(1 - lr * decay), step = static_cast<float>(lr * rate);
    const float* u = direction;
    float* w = param;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index i = begin; i < end; i += by) w[i] = keep * w[i] - step * u[i];
  }
};

class KokkosMuonDirection : public MuonDirection {
 public:
  explicit KokkosMuonDirection(const MuonDirectionDesc& d) : desc_(d) {}
  Layout layout(Verb, Role) const override { return desc_.param.layout; }
  std::string name(Verb) const override { return "flat"; }
  bool merges(Verb) const override { return true; }
  Cost cost(Verb) const override {
    const auto elements = static_cast<double>(desc_.param.elements());
    return {elements * 7, elements * 4 * sizeof(float)};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [diff, global_norm, momentum, direction, loss_scale] = args;
    KEELSON_EXPECT(desc_.clip_norm <= 0 || global_norm);
    for_flat_elements("keelson::muon::direction", direction.stored_elements(),
                      MuonDirectionBody{desc_.momentum, desc_.nesterov ? desc_.momentum : 1.0f, desc_.clip_norm,
                                        static_cast<const LossScale*>(loss_scale.raw()),
                                        static_cast<const double*>(global_norm.raw()),
                                        global_norm ? static_cast<int>(global_norm.elements()) : 0, diff.data<float>(),
                                        momentum.data<float>(), direction.data<float>()});
  }

 private:
  MuonDirectionDesc desc_;
};

class KokkosMuonStep : public MuonStep {
 public:
  explicit KokkosMuonStep(const MuonStepDesc& d) : desc_(d) {}
  Layout layout(Verb, Role) const override { return desc_.param.layout; }
  std::string name(Verb) const override { return "flat"; }
  bool merges(Verb) const override { return true; }
  Cost cost(Verb) const override {
    const auto elements = static_cast<double>(desc_.param.elements());
    return {elements * 3, elements * 3 * sizeof(float)};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [step_params, direction, param, loss_scale] = args;
    for_flat_elements("keelson::muon::step", param.stored_elements(),
                      MuonStepBody{static_cast<const StepParams*>(step_params.raw()),
                                   static_cast<const LossScale*>(loss_scale.raw()), desc_.lr_multiplier, desc_.rate,
                                   desc_.decoupled_decay, direction.data<float>(), param.data<float>()});
  }

 private:
  MuonStepDesc desc_;
};

std::string not_for_muon(const TensorDesc& param) {
  if (param.dtype != DType::f32) return fmt::format("the parameter is {}, not f32", to_string(param.dtype));
  if (!param.layout.is_dense(param.shape)) return "the parameter needs a dense layout: " + param.layout.to_string();
  return "";
}

}  // namespace

Expected<MuonDirection> make(const MuonDirectionDesc& d) {
  if (const auto why = not_for_muon(d.param); !why.empty()) return why;
  return std::unique_ptr<MuonDirection>(std::make_unique<KokkosMuonDirection>(d));
}

Expected<MuonStep> make(const MuonStepDesc& d) {
  if (const auto why = not_for_muon(d.param); !why.empty()) return why;
  return std::unique_ptr<MuonStep>(std::make_unique<KokkosMuonStep>(d));
}

}  // namespace keelson::kokkos
