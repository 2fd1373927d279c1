#include <array>
#include <cmath>

#include "engine/ops/lamb.hpp"
#include "engine/ops/update.hpp"
#include "tests/ops/op_test.hpp"

/// Three steps of a matrix and a vector with given gradients, held against values that were computed apart from this
/// code, in float64 and from the papers' formulas. The oracle has the settings as floats (0.9f), so 1e-7 for it.
namespace keelson::testing {
namespace {

using ops::LarcMode;
using ops::UpdateKind;

struct ReferenceCase {
  std::string name, about;
  bool lamb;
  ops::UpdateParams update[2];  ///< of the matrix and of the vector; LAMB: decoupled_decay and clip_norm
  bool norms[2];
  float learning_rate;
  std::array<double, 6> matrix;
  std::array<double, 3> vector;
};

std::vector<ReferenceCase> reference_cases() {
  const ops::UpdateParams lars{.kind = UpdateKind::lars, .momentum = 0.9f, .epsilon = 0, .lars_eta = 0.001f};
  ops::UpdateParams decayed = lars;
  decayed.weight_decay = 0.01f;
  const ops::UpdateParams larc{.kind = UpdateKind::adam,
                               .larc = LarcMode::clip,
                               .larc_eta = 0.002f,
                               .larc_floor = 1.0f / 16000,
                               .larc_relative = true};
  const ops::UpdateParams lamb{.clip_norm = 1}, lamb_decayed{.decoupled_decay = 0.01f, .clip_norm = 1},
      not_clipped{.decoupled_decay = 0.01f};
  const std::array<double, 6> lamb_matrix{.102738145438,  -.193173786611, .299032559561,
                                          -.402635245879, .491858376763,  -.599619059565};
  return {
      {"lars",
       "the vector without scaling",
       false,
       {decayed, lars},
       {true, false},
       0.1f,
       {.100045653369, -.199910127437, .300049565186, -.400033464968, .499910476113, -.600058529579},
       {-.0183547762863, .366238729145, .414114035996}},
      {"larc_adam",
       "as CosmoFlow at SC18",
       false,
       {larc, larc},
       {true, true},
       1e-4f,
       {.0999688772724, -.199817611834, .300101444847, -.399960009718, .499808583031, -.600111342538},
       {-.0500583877706, .000290214622185, .0502549211125}},
      {"lion",
       "with weight decay of the matrix",
       false,
       {{.kind = UpdateKind::lion, .decoupled_decay = 0.1f, .beta2 = 0.99f},
        {.kind = UpdateKind::lion, .beta2 = 0.99f}},
       {false, false},
       0.01f,
       {.0897102899, -.1894305898, .2890909097, -.3888111896, .4885314895, -.5881918094},
       {-.04, .03, .06}},
      {"schedule_free",
       "with weight decay of the matrix",
       false,
       {{.kind = UpdateKind::schedule_free, .decoupled_decay = 0.01f}, {.kind = UpdateKind::schedule_free}},
       {false, false},
       0.01f,
       {.096067226167, -.191168974587, .302680156912, -.396291823006, .489452026283, -.60285704266},
       {-.049493214114, .02169146807, .063852202208}},
      {"lamb",
       "",
       true,
       {lamb_decayed, lamb},
       {true, false},
       0.01f,
       lamb_matrix,
       {-.0558886097744, .029006817603, .0755299256663}},
      {"nvlamb",
       "the vector is scaled too",
       true,
       {lamb_decayed, lamb},
       {true, true},
       0.01f,
       lamb_matrix,
       {-.050162175871, .00146592828756, .0512603884192}},
      {"lamb_not_clipped",
       "",
       true,
       {not_clipped, {}},
       {true, false},
       0.01f,
       {.102266197403, -.19357192659, .29899901358, -.402210275047, .492300039175, -.599530529241},
       {-.0558387689695, .0290214253514, .0754920886404}},
  };
}

class OptimizerReferenceTest : public CaseTest<ReferenceCase> {
 protected:
  static Array gradient(int which, int t) {
    Array g(which == 0 ? Shape{2, 3} : Shape{3});
    for (std::int64_t i = 0; i < g.elements(); ++i) {
      const auto x = static_cast<double>(i);
      g[i] = which == 0 ? std::sin(1 + x + 2 * t) : std::cos(x + t);
    }
    return g;
  }
  ops::LambParams lamb_params(int which) const {
    return {.decoupled_decay = c().update[which].decoupled_decay, .clip_norm = c().update[which].clip_norm};
  }
  static double squares(int t) { return oracle::sum_squares(gradient(0, t)) + oracle::sum_squares(gradient(1, t)); }

  const Array start_[2] = {Array({2, 3}, {.1, -.2, .3, -.4, .5, -.6}), Array({3}, {-.05, 0, .05})};
  Array want(int which) const {
    if (which == 0) return Array({2, 3}, {c().matrix.begin(), c().matrix.end()});
    return Array({3}, {c().vector.begin(), c().vector.end()});
  }
};

TEST_P(OptimizerReferenceTest, OfTheOracle) {
  for (const int which : {0, 1}) {
    const auto& p = c().update[which];
    const Array zero(start_[which].shape);
    oracle::OptimizerState s{start_[which], zero, zero};
    for (int t = 1; t <= 3; ++t) {
      const ops::StepParams now{.step = static_cast<std::uint64_t>(t - 1), .learning_rate = c().learning_rate};
      if (c().lamb) {
        const Array u = oracle::lamb_direction(s, gradient(which, t), lamb_params(which), now, squares(t));
        oracle::lamb_step(s.param, u, {}, now, c().norms[which]);
      } else {
        s = oracle::update(std::move(s), gradient(which, t), p, now, squares(t), c().norms[which]);
      }
    }
    for (std::int64_t i = 0; i < zero.elements(); ++i)
      EXPECT_NEAR(s.param[i], want(which)[i], 1e-7) << which << " " << i;
  }
}

TEST_P(OptimizerReferenceTest, OfTheKernels) {
  for (const int which : {0, 1}) {
    const auto& p = c().update[which];
    const Shape shape = start_[which].shape;
    const auto plain = Layout::plain(shape);
    const auto desc = TensorDesc::plain(shape);
    const auto param = put(ctx(), start_[which], plain), m = put(ctx(), Array(shape), plain),
               v = put(ctx(), Array(shape), plain), u = put(ctx(), Array(shape), plain);
    const auto update = c().lamb ? nullptr : make(ops::UpdateDesc{p, desc});
    const auto direction = c().lamb ? make(ops::LambDirectionDesc{lamb_params(which), desc}) : nullptr;
    const auto move = c().lamb ? make(ops::LambStepDesc{desc}) : nullptr;
    if (!update && (!direction || !move)) return;
    const auto norms_of = [&](const Tensor& a, const Tensor& b) {
      if (!c().norms[which]) return Tensor();
      return put_f64(ctx(), {Shape{2}, {oracle::sum_squares(get(ctx(), a)), oracle::sum_squares(get(ctx(), b))}});
    };
    for (int t = 1; t <= 3; ++t) {
      const auto step_params =
          put_step_params(ctx(), {.step = static_cast<std::uint64_t>(t - 1), .learning_rate = c().learning_rate});
      const auto diff = put(ctx(), gradient(which, t), plain);
      const auto global = p.clip_norm > 0 ? put_f64(ctx(), Array(Shape{1}, squares(t))) : Tensor();
      if (c().lamb) {
        direction->forward({step_params, diff, global, param, m, v, u});
        move->forward({step_params, u, norms_of(param, u), param});
      } else {
        update->forward({step_params, diff, {}, global, norms_of(param, diff), param, m, v});
      }
    }
    const Array got = get(ctx(), param);
    for (std::int64_t i = 0; i < got.elements(); ++i) EXPECT_NEAR(got[i], want(which)[i], 1e-5) << which << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(OptimizerReference, OptimizerReferenceTest,
                         ::testing::ValuesIn(on_every_context(reference_cases())), CaseName());

}  // namespace
}  // namespace keelson::testing
