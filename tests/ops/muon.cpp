#include "engine/ops/muon.hpp"

#include <array>
#include <cmath>

#include "engine/ops/orthogonalize.hpp"
#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

struct MuonCase {
  std::string name, about;
  float momentum = 0.95f;
  bool nesterov = true;
  float clip_norm = 0;
  float rate = 1, decay = 0;
  double gradients = 1;  ///< the factor of the gradients
  float scale = 1;       ///< LossScale::scale
};

std::vector<MuonCase> muon_cases() {
  return {
      {"nesterov", "without decay"},
      {"decayed", "decoupled decay, a tall matrix's rate", 0.95f, true, 0, 1.5f, 0.1f},
      {"momentum", "the direction is the momentum", 0.9f, false},
      {"no_momentum", "the direction is the gradient", 0},
      {"clipped", "the global norm is too large", 0.95f, true, 0.5f},
      {"not_clipped", "the global norm is small", 0.95f, true, 1e6f},
      {"scaled", "gradients come 4096 times too large", 0.95f, true, 0.5f, 1, 0.1f, 4096, 4096},
  };
}

class MuonTest : public CaseTest<MuonCase> {
 protected:
  ops::MuonDirectionDesc direction_desc(const TensorDesc& d) const {
    return {d, c().momentum, c().nesterov, c().clip_norm};
  }
  ops::MuonStepDesc step_desc(const TensorDesc& d) const { return {d, 0.5f, c().rate, c().decay}; }
  Tensor norm_of(double squares) { return c().clip_norm > 0 ? put_f64(ctx(), Array(Shape{1}, squares)) : Tensor(); }

  void check_steps(const Shape& shape, const Layout& layout, const std::string& what) {
    const TensorDesc desc{shape, DType::f32, layout};
    const auto direction = make(direction_desc(desc));
    const auto step = make(step_desc(desc));
    if (!direction || !step) return;
    oracle::OptimizerState want{oracle::random_uniform(shape, "w"), Array(shape), {}};
    const Tensor param = put(ctx(), want.param, layout), momentum = put(ctx(), want.moment1, layout),
                 u = put(ctx(), Array(shape, 7), layout);
    const ops::LossScale loss_scale{.unscale = 1 / c().scale};
    const Tensor scale = put_loss_scale(ctx(), loss_scale);
    for (std::uint64_t i = 0; i < 3; ++i) {
      Array g = oracle::random_uniform(shape, fmt::format("g{}", i));
      for (auto& v : g.data) v = static_cast<float>(v * c().gradients);
      const double squares = 3 * oracle::sum_squares(g);
      const ops::StepParams now{.step = i, .learning_rate = 0.05f};
      const Tensor diff = put(ctx(), g, layout), params = put_step_params(ctx(), now), norm = norm_of(squares);
      const auto used = allocations_of([&] {
        direction->forward({diff, norm, momentum, u, scale});
        step->forward({params, u, param, scale});
      });
      EXPECT_LE(used.bytes, 2 * allowed_bytes());
      const Array direction_wanted = oracle::muon_direction(want, g, direction_desc(desc), squares, loss_scale);
      oracle::muon_step(want.param, direction_wanted, step_desc(desc), now, loss_scale);
      const auto at = fmt::format("{} ({}) after step {}", what, c().about, i);
      check(u, direction_wanted, at + " direction");
      check(momentum, want.moment1, at + " momentum");
      check(param, want.param, at);
      for (const auto& t : {param, momentum, u})
        if (t.layout().is_opaque()) {
          EXPECT_EQ(dirty_padding(ctx(), t), 0) << at;
        }
    }
  }
};

TEST_P(MuonTest, MatchesOracle) {
  check_steps({1, 1}, Layout::plain({1, 1}), c().name + " on one element");
  const Shape weights{5, 3, 3, 3};
  check_steps(weights, Layout::plain(weights), c().name + " plain");
  check_steps(weights, Layout::channels_last(weights), c().name + " channels-last");
  check_steps({70'001, 1}, Layout::plain({70'001, 1}), c().name + " of several blocks");
  const Shape padded{2, 17, 3, 3};
  if (const auto blocked = producer_layout(ctx(), padded)) check_steps(padded, *blocked, c().name + " blocked");
}

TEST_P(MuonTest, SkippedStepsMoveNothing) {
  const Shape shape{7, 143};
  const auto plain = Layout::plain(shape);
  const auto direction = make(direction_desc(TensorDesc::plain(shape)));
  const auto step = make(step_desc(TensorDesc::plain(shape)));
  if (!direction || !step) return;
  const Array w = oracle::random_uniform(shape, "w"), m = oracle::random_uniform(shape, "m");
  const Tensor param = put(ctx(), w, plain), momentum = put(ctx(), m, plain), u = put(ctx(), Array(shape, 7), plain),
               scale = put_loss_scale(ctx(), {.skip = 1});
  direction->forward({put(ctx(), Array(shape, inf), plain), norm_of(inf), momentum, u, scale});
  step->forward({put_step_params(ctx(), {.step = 3, .learning_rate = 0.05f}), u, param, scale});
  check(param, w, c().name, exact);
  check(momentum, m, c().name + " momentum", exact);
  check(u, Array(shape), c().name + " direction", exact);
}

INSTANTIATE_TEST_SUITE_P(Muon, MuonTest, ::testing::ValuesIn(on_every_context(muon_cases())), CaseName());

/// Three steps of a matrix with given gradients, held against values that were computed apart from this code, in
/// float64 and by the formulas of torch.optim.Muon of PyTorch 2.14. (PyTorch's own values differ by its bf16.)
struct MuonReference {
  std::string name, about;
  Shape shape;
  bool nesterov;
  float rate, decay;
  std::array<double, 6> start, want;
};

class MuonReferenceTest : public CaseTest<MuonReference> {
 protected:
  Array gradient(int t) const {
    Array g(c().shape);
    for (std::int64_t i = 0; i < g.elements(); ++i) g[i] = std::sin(1 + static_cast<double>(i) + 2 * t);
    return g;
  }
};

TEST_P(MuonReferenceTest, OfOracleAndKernels) {
  const Shape& shape = c().shape;
  const auto plain = Layout::plain(shape);
  const TensorDesc desc = TensorDesc::plain(shape);
  const ops::MuonDirectionDesc d{.param = desc, .nesterov = c().nesterov};
  const ops::MuonStepDesc s{.param = desc, .rate = c().rate, .decoupled_decay = c().decay};
  const ops::OrthogonalizeDesc o{.src = desc};
  const auto direction = make(d);
  const auto step = make(s);
  const auto orthogonalize = make(o);
  if (!direction || !step || !orthogonalize) return;
  const Array start(shape, {c().start.begin(), c().start.end()}), want(shape, {c().want.begin(), c().want.end()});
  oracle::OptimizerState state{start, Array(shape), {}};
  const Tensor param = put(ctx(), start, plain), momentum = put(ctx(), Array(shape), plain),
               u = put(ctx(), Array(shape), plain),
               memory = scratch(ctx(), orthogonalize->scratch_bytes(ops::Verb::forward));
  for (int t = 1; t <= 3; ++t) {
    const ops::StepParams now{.step = static_cast<std::uint64_t>(t - 1), .learning_rate = 0.02f};
    oracle::muon_step(state.param, oracle::orthogonalize(oracle::muon_direction(state, gradient(t), d), o), s, now);
    direction->forward({put(ctx(), gradient(t), plain), {}, momentum, u});
    orthogonalize->forward({u, u, memory});
    step->forward({put_step_params(ctx(), now), u, param});
  }
  const Array got = get(ctx(), param);
  for (std::int64_t i = 0; i < want.elements(); ++i) {
    EXPECT_NEAR(state.param[i], want[i], 1e-6) << i;  // the oracle's settings are floats
    EXPECT_NEAR(got[i], want[i], 1e-5) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    MuonReference, MuonReferenceTest,
    ::testing::ValuesIn(on_every_context<MuonReference>({
        {"wide",
         "",
         {2, 3},
         true,
         1,
         0.1f,
         {.1, -.2, .3, -.4, .5, -.6},
         {.106930859548, -.195743128185, .293979798754, -.394916679172, .49253743836, -.603924056821}},
        {"tall",
         "without Nesterov, rate sqrt(3 / 2)",
         {3, 2},
         false,
         1.22474487f,
         0.1f,
         {.1, -.2, .3, -.4, .5, -.6},
         {.109364148223, -.175893043326, .314008112698, -.431511828297, .473889049055, -.591095942485}},
        {"match_rms_adamw",
         "rate 0.2 sqrt(3)",
         {3, 2},
         true,
         0.346410162f,
         0.1f,
         {.1, -.2, .3, -.4, .5, -.6},
         {.100608413271, -.197068715804, .2993530522, -.399053661045, .494842098138, -.596934997251}},
        {"spectral_unclamped",
         "rate sqrt(2 / 3), no decay",
         {2, 3},
         true,
         0.816496581f,
         0,
         {.1, -.2, .3, -.4, .5, -.6},
         {.106203805413, -.197458952949, .296542061748, -.397763307853, .496338111586, -.606193745655}},
    })),
    CaseName());

}  // namespace
}  // namespace keelson::testing
