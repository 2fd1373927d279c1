#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/optimizers.hpp"
#include "engine/train/checkpoint/checkpoint.hpp"
#include "tests/oracle/ops.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/networks.hpp"

/// What optimizers make of a network: states, norms, clipping and updates together, against the oracle.
namespace keelson::testing {
namespace {

Graph small() {
  Graph g;
  const Var x = g.input("x", {3, 6, 6}), y = g.input("y", {2});
  const Var h = relu(conv(x, {.filters = 5, .size = 3, .padding = Padding::same}, "conv"));
  const Var out = dense(relu(dense(flatten(h), 7, "hidden")), 2, "out");
  mse(out, y);
  return g;
}

std::vector<std::string> ops_of(const Executor& executor, const std::string& node) {
  std::vector<std::string> ops;
  for (const PlanRow& r : executor.rows())
    if (r.phase == "update" && r.node == node) ops.push_back(r.op);
  return ops;
}

class OptimizersTest : public ::testing::TestWithParam<std::string> {
 protected:
  Context& ctx() { return context(GetParam()); }

  /// Three steps, each held against `oracle_step(name, state before, gradient, step parameters, sum of squares of all
  /// gradients)`.
  template <class OracleStep>
  void check_steps(const Optimizer& optimizer, OracleStep oracle_step, Tolerance of_step = tolerance(DType::f32)) {
    const Graph g = small();
    Parameters parameters(g, ctx(), 1);
    Executor executor(g, parameters, {.batch = 2, .optimizer = &optimizer});
    const auto states = optimizer.state_names().size();
    for (std::uint64_t i = 0; i < 3; ++i) {
      set_input(ctx(), executor, "x", oracle::random_uniform({2, 3, 6, 6}, fmt::format("x{}", i)));
      set_input(ctx(), executor, "y", oracle::random_uniform({2, 2}, fmt::format("y{}", i), 3, 5));
      const ops::StepParams now{.step = i, .inverse_samples = 0.5f, .learning_rate = 0.1f};
      executor.forward(now);
      executor.backward();
      std::map<std::string, oracle::OptimizerState> want;
      std::map<std::string, Array> gradients;
      double squares = 0;
      for (const auto& p : parameters.all()) {
        gradients[p.name] = array(p.shape, executor.gradient(p.name));
        squares += oracle::sum_squares(gradients[p.name]);
        auto& s = want[p.name];
        s.param = array(p.shape, parameters.get(p));
        s.moment1 = s.moment2 = Array(p.shape);
        if (states > 0) s.moment1 = array(p.shape, parameters.get(p, 0));
        if (states > 1) s.moment2 = array(p.shape, parameters.get(p, 1));
      }
      EXPECT_GT(squares, 1) << "the global norm is clipped";
      executor.update();
      for (const auto& p : parameters.all()) {
        auto s = oracle_step(p.name, p.shape, want[p.name], gradients[p.name], now, squares);
        const auto what = fmt::format("{} after step {} of {}", p.name, i + 1, optimizer.to_string());
        EXPECT_TRUE(close(array(p.shape, parameters.get(p)), s.param, what, of_step));
        const auto in_memory = moments_in_memory(optimizer, p.name, p.shape);
        ASSERT_EQ(p.moments.size(), in_memory) << what;
        for (std::size_t which = 0; which < states; ++which) {
          const Array got = array(p.shape, parameters.get(p, static_cast<int>(which)));
          const Array& expected = which == 0 ? s.moment1 : s.moment2;
          EXPECT_TRUE(close(got, expected, fmt::format("{} state {}", what, which + 1), tolerance(DType::f32)));
        }
      }
    }
  }

  /// Of a matrix Muon needs the first state alone. The second one then reads as zeros.
  static std::size_t moments_in_memory(const Optimizer& optimizer, const std::string& name, const Shape& shape) {
    const auto* muon = dynamic_cast<const Muon*>(&optimizer);
    return muon && !muon->is_for_adamw(name, shape, name == "out/weights") ? 1 : optimizer.state_names().size();
  }

  static Array array(const Shape& shape, const std::vector<float>& v) {
    return {shape, std::vector<double>(v.begin(), v.end())};
  }
};

/// With default settings, weight decay, clipping and a group. Other settings have tests of their own below.
TEST_P(OptimizersTest, EachOptimizerOfOneUpdateMatchesTheOracle) {
  for_each_type(Optimizers{}, [&]<class O>() {
    if constexpr (std::is_base_of_v<UpdateOptimizer, O>) {
      O optimizer;
      optimizer.clip_norm = 0.5f;
      optimizer.weight_decay = 0.01f;
      optimizer.groups = {{{"hidden/*"}, 0.1f, 0.5f}};
      check_steps(optimizer,
                  [&](const auto& name, const auto& shape, auto s, const auto& g, const auto& now, double squares) {
                    const ops::UpdateParams p = optimizer.update_for(name, shape);
                    EXPECT_EQ(static_cast<std::size_t>(ops::moment_count(p)), optimizer.state_names().size());
                    EXPECT_EQ(p.lr_multiplier, name.starts_with("hidden") ? 0.5f : 1);
                    return oracle::update(s, g, p, now, squares, shape.rank() > 1);
                  });
    }
  });
}

TEST_P(OptimizersTest, SgdAndAdamWithLarcMatchTheOracle) {
  const auto check = [this](auto& optimizer) {
    optimizer.clip_norm = 0.5f;
    optimizer.weight_decay = 0.01f;
    optimizer.larc.mode = ops::LarcMode::scale;
    optimizer.larc.eta = 0.1f;
    check_steps(optimizer, [&](const auto& name, const auto&, auto s, const auto& g, const auto& now, double squares) {
      return oracle::update(s, g, optimizer.update_for(name), now, squares);
    });
  };
  Sgd sgd;
  sgd.momentum = 0.9f;
  check(sgd);
  Adam adam;
  check(adam);
  AdamW adamw;
  check(adamw);
}

TEST_P(OptimizersTest, LarsMatchesTheOracle) {
  for (const bool vectors : {false, true}) {
    Lars lars;
    lars.clip_norm = 0.5f;
    lars.eta = 0.1f;
    lars.weight_decay = 0.01f;
    lars.adapt_vectors = vectors;
    lars.rate_in_momentum = !vectors;
    lars.groups = {{{"hidden/*"}, 0.1f, 0.5f}};
    check_steps(lars, [&](const auto& name, const auto& shape, auto s, const auto& g, const auto& now, double squares) {
      const auto p = lars.update_for(name, shape);
      if (!name.starts_with("hidden")) {
        EXPECT_EQ(p.weight_decay, vectors || shape.rank() > 1 ? 0.01f : 0.0f) << name;
      } else {
        EXPECT_EQ(p.weight_decay, 0.1f) << name << ", which a group names";
      }
      return oracle::update(s, g, p, now, squares, vectors || shape.rank() > 1);
    });
  }
}

TEST_P(OptimizersTest, LambMatchesTheOracle) {
  for (const bool nvlamb : {false, true}) {
    Lamb lamb;
    lamb.nvlamb = nvlamb;
    lamb.groups = {{{"hidden/*"}, 0.1f, 0.5f}, {{"out/weights"}, 0, 2}};
    check_steps(lamb, [&](const auto& name, const auto& shape, auto s, const auto& g, const auto& now, double squares) {
      const Array u = oracle::lamb_direction(s, g, lamb.params_for(name, shape), now, squares);
      const float lr = name.starts_with("hidden") ? 0.5f : name == "out/weights" ? 2.0f : 1.0f;
      const bool scaled = nvlamb || name == "conv/weights" || name.starts_with("hidden");
      oracle::lamb_step(s.param, u, {{}, lr}, now, scaled);
      return s;
    });
  }
}

/// A gradient of two samples has two singular values. The others are rounding errors, which the iterations enlarge.
TEST_P(OptimizersTest, MuonMatchesTheOracle) {
  for (const bool other_settings : {false, true}) {
    Muon muon;
    muon.clip_norm = 0.5f;
    muon.adamw_rate = 0.5f;
    muon.groups = {{{"hidden/*"}, 0.2f, 0.5f}};
    if (other_settings) {
      muon.momentum = 0.8f;
      muon.nesterov = false;
      muon.ns_steps = 4;
      muon.adjust_lr_fn = AdjustRate::match_rms_adamw;
      muon.adamw = "conv/weights nobody/*";
    }
    const std::string other = other_settings ? "out/weights" : "conv/weights";
    check_steps(
        muon,
        [&](const auto& name, const auto& shape, auto s, const auto& g, const auto& now, double squares) {
          const bool hidden = name == "hidden/weights";
          EXPECT_EQ(muon.is_for_adamw(name, shape, name == "out/weights"), !hidden && name != other) << name;
          if (!hidden && name != other) {
            const ops::UpdateParams p = muon.adamw_for(name, shape);
            EXPECT_EQ(p.lr_multiplier, name.starts_with("hidden") ? 0.25f : 0.5f) << name;
            EXPECT_EQ(p.decoupled_decay, name.starts_with("hidden") ? 0.2f : shape.rank() > 1 ? 0.1f : 0.0f) << name;
            return oracle::update(s, g, p, now, squares);
          }
          const TensorDesc d = TensorDesc::plain(shape);
          const Array u = oracle::muon_direction(s, g, {d, muon.momentum, muon.nesterov, muon.clip_norm}, squares);
          oracle::muon_step(s.param, oracle::orthogonalize(u, {.src = d, .steps = muon.ns_steps}),
                            {d, hidden ? 0.5f : 1, muon.rate_for(shape), hidden ? 0.2f : 0.1f}, now);
          return s;
        },
        {1e-4, 1e-4});
  }
}

/// |dw| = lr |w| where the trust ratio applies, whatever the gradients' size.
TEST_P(OptimizersTest, LambMovesByTheLearningRateTimesTheNorm) {
  const Graph g = small();
  Lamb lamb;
  lamb.clip_norm = 0;
  Parameters parameters(g, ctx(), 1);
  Executor executor(g, parameters, {.batch = 2, .optimizer = &lamb});
  set_input(ctx(), executor, "x", oracle::random_uniform({2, 3, 6, 6}, "x"));
  set_input(ctx(), executor, "y", oracle::random_uniform({2, 2}, "y", 3, 5));
  const auto before = array(parameters.at("hidden/weights").shape, parameters.get(parameters.at("hidden/weights")));
  executor.forward({.inverse_samples = 0.5f, .learning_rate = 0.01f});
  executor.backward();
  executor.update();
  auto moved = array(before.shape, parameters.get(parameters.at("hidden/weights")));
  for (std::int64_t i = 0; i < moved.elements(); ++i) moved[i] -= before[i];
  EXPECT_NEAR(std::sqrt(oracle::sum_squares(moved) / oracle::sum_squares(before)), 0.01, 1e-6);
}

/// Layers read the parameter plus its first state in training; plans for evaluation read the parameter.
TEST_P(OptimizersTest, ScheduleFreeReadsAheadInTrainingAlone) {
  const Graph g = small();
  AdamWScheduleFree optimizer;
  Parameters parameters(g, ctx(), 1);
  Executor training(g, parameters, {.batch = 2, .optimizer = &optimizer});
  const Plan plan(g, parameters, {.batch = 2, .training = false});
  Executor evaluation(plan, parameters);
  const auto loss_of = [&](Executor& e) {
    set_input(ctx(), e, "x", oracle::random_uniform({2, 3, 6, 6}, "x"));
    set_input(ctx(), e, "y", oracle::random_uniform({2, 2}, "y", 3, 5));
    e.forward({.step = 1, .inverse_samples = 0.5f, .learning_rate = 0.1f});
    if (&e == &training) e.backward();
    return e.loss();
  };
  EXPECT_NEAR(loss_of(training), loss_of(evaluation), 1e-5) << "the states are zero at first";
  training.update();
  const double ahead = loss_of(training), mean = loss_of(evaluation);
  EXPECT_GT(std::abs(ahead - mean), 1e-3 * mean);
  for (Parameter& p : parameters.all()) {
    std::vector<float> point = parameters.get(p);
    const std::vector<float> state = parameters.get(p, 0);
    for (std::size_t i = 0; i < point.size(); ++i) point[i] += state[i];
    parameters.set(p, point);
  }
  EXPECT_NEAR(loss_of(evaluation), ahead, 1e-5 * ahead);
}

/// Each optimizer's calls; the norm of all gradients is summed once, however many parts want it.
TEST_P(OptimizersTest, AppendTheirOwnCalls) {
  const Graph g = small();
  const auto executor_of = [&](const Optimizer& o, Parameters& parameters) {
    return std::make_unique<Executor>(g, parameters, PlanOptions{.batch = 2, .optimizer = &o});
  };
  Lamb lamb;
  Lars lars;
  using Ops = std::vector<std::string>;
  {
    Parameters parameters(g, ctx(), 1);
    const auto e = executor_of(lamb, parameters);
    auto calls = ops_of(*e, "conv/weights");
    std::ranges::sort(calls);  // a device that merges launches does not wait with the first sum for the direction
    EXPECT_EQ(calls, (Ops{"direction", "sum of squares", "sum of squares", "update"}));
    EXPECT_EQ(ops_of(*e, "conv/bias"), (Ops{"direction", "update"}));
    EXPECT_GE(ops_of(*e, "all gradients").size(), 1u);
    EXPECT_EQ(std::ranges::count(ops_of(*e, "all gradients"), "sum of squares"), 1);
  }
  {
    Parameters parameters(g, ctx(), 1);
    const Muon muon;
    const auto e = executor_of(muon, parameters);
    auto calls = ops_of(*e, "conv/weights");
    std::erase(calls, "reorder");  // of layouts whose memory is no matrix
    EXPECT_EQ(calls, (Ops{"direction", "orthogonalize", "update"}));
    EXPECT_EQ(ops_of(*e, "conv/bias"), (Ops{"update"}));
    EXPECT_EQ(ops_of(*e, "out/weights"), (Ops{"update"})) << "AdamW moves the last layer";
  }
  Parameters parameters(g, ctx(), 1);
  const auto e = executor_of(lars, parameters);
  EXPECT_EQ(ops_of(*e, "conv/weights"), (Ops{"sum of squares", "sum of squares", "update"}));
  EXPECT_EQ(ops_of(*e, "conv/bias"), (Ops{"update"}));
}

/// An embedding's gradient stays by rows for SGD alone; all others get the whole one.
TEST_P(OptimizersTest, OnlyPlainSgdTakesGradientsByRows) {
  Graph g;
  const Var x = g.input("x", {4}, DType::s32), y = g.input("y", {4}, DType::s32);
  loss(dense(embedding(x, {500, 6}, "embedding"), 5, "out"), y,
       {.kind = ops::LossKind::cross_entropy, .sum_rows = true});
  const auto update_of = [&](const Optimizer& o) {
    Parameters parameters(g, ctx(), 1);
    return ops_of(Executor(g, parameters, {.batch = 2, .optimizer = &o}), "embedding/weights").back();
  };
  EXPECT_EQ(update_of(Sgd()), "update of rows");
  EXPECT_EQ(update_of(Adam()), "update");
  EXPECT_EQ(update_of(Lars()), "update");
  EXPECT_EQ(update_of(Lamb()), "update");
  EXPECT_EQ(update_of(Muon()), "update") << "by AdamW";
}

/// So does that of a sampled softmax, unless an embedding has the same table.
TEST_P(OptimizersTest, PlainSgdTakesTheRowsOfASampledSoftmax) {
  const auto updates_of = [&](const std::string& weights_of) {
    Graph g;
    const Var x = g.input("x", {4}, DType::s32), y = g.input("y", {4}, DType::s32);
    sampled_softmax(embedding(x, {500, 6}, "embedding"), y, {.classes = 500, .samples = 16, .weights_of = weights_of},
                    "out");
    Parameters parameters(g, ctx(), 1);
    const Sgd o;
    const Executor e(g, parameters, {.batch = 2, .optimizer = &o});
    return std::pair(ops_of(e, weights_of.empty() ? "out/weights" : "embedding/weights").back(),
                     ops_of(e, "out/bias").back());
  };
  EXPECT_EQ(updates_of(""), std::pair(std::string("update of rows"), std::string("update")));
  EXPECT_EQ(updates_of("embedding"), std::pair(std::string("update"), std::string("update")));
}

INSTANTIATE_TEST_SUITE_P(Contexts, OptimizersTest, ::testing::ValuesIn(network_contexts()),
                         [](const auto& info) { return info.param; });

TEST(Optimizers, NameTheirStatesAsPyTorchDoes) {
  using Names = std::vector<std::string>;
  Sgd sgd;
  EXPECT_EQ(sgd.state_names(), Names());
  sgd.momentum = 0.9f;
  EXPECT_EQ(sgd.state_names(), Names{"momentum_buffer"});
  EXPECT_EQ(Lamb().state_names(), (Names{"exp_avg", "exp_avg_sq"}));
  EXPECT_EQ(Muon().state_names(), (Names{"exp_avg", "exp_avg_sq"}));
  // Files of format 2 keep the names that they have had.
  EXPECT_EQ(moment_names(sgd), Names{"momentum"});
  EXPECT_EQ(moment_names(Lars()), Names{"momentum"});
  EXPECT_EQ(moment_names(Adam()), (Names{"m", "v"}));
  EXPECT_EQ(moment_names(Lamb()), (Names{"m", "v"}));
}

TEST(Optimizers, AreMadeByTheirNamesAndHaveTheirSettings) {
  EXPECT_EQ(optimizer_names().front(), "sgd") << "in small letters";
  EXPECT_THROW(make_optimizer("adagrad"), InputError);
  for (const std::string& name : optimizer_names()) {
    const auto optimizer = make_optimizer(name), other = make_optimizer(name);
    EXPECT_TRUE(optimizer->to_string().starts_with(name)) << optimizer->to_string();
    for (const OptimizerSetting& s : optimizer->settings()) {
      if (std::holds_alternative<float*>(s.value)) s.read("0.75");
      if (std::holds_alternative<bool*>(s.value)) s.read(s.text() == "true" ? "false" : "true");
      if (std::holds_alternative<std::int32_t*>(s.value)) s.read("7");
      if (std::holds_alternative<std::string*>(s.value)) s.read("head/* tokens/*");
      if (std::holds_alternative<ops::LarcMode*>(s.value)) s.read("scale");
      if (std::holds_alternative<ops::Graft*>(s.value)) s.read("sgd");
      if (std::holds_alternative<AdjustRate*>(s.value)) s.read("match_rms_adamw");
      if (!std::holds_alternative<std::string*>(s.value)) {
        EXPECT_THROW(s.read("much"), InputError) << s.name;
      }
    }
    const auto changed = optimizer->settings(), standard = other->settings();
    for (std::size_t i = 0; i < changed.size(); ++i)
      EXPECT_NE(changed[i].text(), standard[i].text()) << name << ": " << changed[i].name;
    EXPECT_EQ(optimizer->weight_decay, 0.75f);
  }
}

TEST(Optimizers, MuonsRateDependsOnTheShape) {
  Muon muon;
  const Shape tall{32, 2, 2, 2}, wide{4, 16};
  EXPECT_FLOAT_EQ(muon.rate_for(tall), 2);
  EXPECT_FLOAT_EQ(muon.rate_for(wide), 1);
  muon.adjust_lr_fn = AdjustRate::match_rms_adamw;
  EXPECT_FLOAT_EQ(muon.rate_for(tall), 0.2f * std::sqrt(32.0f));
  EXPECT_FLOAT_EQ(muon.rate_for(wide), 0.8f);
  muon.adjust_lr_fn = AdjustRate::spectral_unclamped;
  EXPECT_FLOAT_EQ(muon.rate_for(tall), 2);
  EXPECT_FLOAT_EQ(muon.rate_for(wide), 0.5f);
}

TEST(Optimizers, MuonsMatricesMayBeNamed) {
  Muon muon;
  const Shape matrix{4, 5};
  EXPECT_TRUE(muon.is_for_adamw("hidden/bias", {4}, false));
  EXPECT_FALSE(muon.is_for_adamw("hidden/weights", matrix, false));
  EXPECT_TRUE(muon.is_for_adamw("out/weights", matrix, true));
  muon.adamw = "none";
  EXPECT_FALSE(muon.is_for_adamw("out/weights", matrix, true)) << "Muon moves all matrices";
  EXPECT_TRUE(muon.is_for_adamw("hidden/bias", {4}, false));
  muon.adamw = "hid*  *rows";
  EXPECT_TRUE(muon.is_for_adamw("hidden/weights", matrix, false));
  EXPECT_TRUE(muon.is_for_adamw("table/rows", matrix, false));
  EXPECT_FALSE(muon.is_for_adamw("out/weights", matrix, true));
}

TEST(Optimizers, SayWhatTheyAre) {
  Sgd sgd;
  sgd.momentum = 0.9f;
  sgd.nesterov = true;
  sgd.larc.mode = ops::LarcMode::clip;
  EXPECT_EQ(sgd.to_string(), "sgd nesterov momentum 0.9, larc clip 0.002");
  EXPECT_EQ(AdamW().to_string(), "adamw betas 0.9 0.999 epsilon 1e-08");
  EXPECT_EQ(Lars().to_string(), "lars momentum 0.9 eta 0.001, weight decay 0.0005");
  EXPECT_EQ(Shampoo().to_string(),
            "shampoo betas 0.9 0.999 epsilon 1e-12, grafting adam epsilon 1e-08, roots every 20 steps from step 20, "
            "blocks of 1024");
  EXPECT_EQ(Lamb().to_string(), "lamb betas 0.9 0.999 epsilon 1e-06, weight decay 0.01, clip norm 1");
  Muon muon;
  EXPECT_EQ(muon.to_string(),
            "muon nesterov momentum 0.95, 5 steps of 3.4445 -4.775 2.0315 epsilon 1e-07, adamw lr x 1 betas 0.9 0.999 "
            "epsilon 1e-08, weight decay 0.1");
  muon.nesterov = false;
  muon.adjust_lr_fn = AdjustRate::spectral_unclamped;
  muon.adamw = "head/* tokens/*";
  EXPECT_EQ(muon.to_string(),
            "muon momentum 0.95, 5 steps of 3.4445 -4.775 2.0315 epsilon 1e-07, rate spectral_unclamped, adamw of "
            "head/* tokens/* lr x 1 betas 0.9 0.999 epsilon 1e-08, weight decay 0.1");
}

}  // namespace
}  // namespace keelson::testing
