#include "engine/train/rate_range.hpp"

#include <gtest/gtest.h>

#include "tests/support/fake_async_context.hpp"
#include "tests/train/support.hpp"

/// Searches for learning rates.
namespace keelson::testing {
namespace {

/// x = 1 and y = 0: with the network w x the loss is w^2, whose curvature is 2. Steps w -= rate * 2 w shrink w for
/// rates below 1.
class OneDataset final : public Dataset {
 public:
  std::int64_t size() const override { return 8; }
  const std::vector<Field>& fields() const override { return fields_; }
  std::string describe() const override { return "ones"; }
  void read(std::int64_t, void* const* dst) const override {
    *static_cast<float*>(dst[0]) = 1;
    *static_cast<float*>(dst[1]) = 0;
  }

 private:
  std::vector<Field> fields_{{"x", {1}}, {"y", {1}}};
};

constexpr double largest_stable = 1;

Graph quadratic() {
  Graph g;
  const Var x = g.input("x", {1}), y = g.input("y", {1});
  mse(dense(x, DenseOptions{.bias = false, .weights_init = Init::constant(1)}, "w"), y);
  return g;
}

TrainerOptions quadratic_options() {
  TrainerOptions o;
  o.network = "quadratic";
  o.batch = 3;  // of 8 samples, so that some steps are short
  o.optimizer = make_sgd(0);
  return o;
}

TEST(RateRange, EndsWhereStepsBecomeUnstable) {
  const auto device = make_fake_async_context();
  const std::string host = "kokkos";
  const Graph graph = quadratic();
  const OneDataset data;
  const RateRangeOptions r{.least = 1e-3, .most = 10, .steps = 60, .smoothing = 0};
  const double factor = std::pow(r.most / r.least, 1.0 / static_cast<double>(r.steps - 1));
  for (Context* where : {device.get(), &context(host)}) {
    Parameters parameters(graph, *where, 1);
    std::vector<double> told;
    const RateRange range = find_rates(graph, parameters, data, nullptr, quadratic_options(), r,
                                       [&](const RatePoint& p) { told.push_back(p.loss); });
    ASSERT_TRUE(range.diverged);
    ASSERT_TRUE(range.minimum && range.steepest);
    EXPECT_GE(*range.minimum, largest_stable);
    EXPECT_LE(*range.minimum, largest_stable * factor * (1 + 1e-6)) << "the first rate that raises the loss";
    EXPECT_LT(*range.steepest, largest_stable);
    EXPECT_LT(range.points.back().rate, 10 * largest_stable);
    ASSERT_EQ(told.size(), range.points.size());
    EXPECT_NEAR(range.points[0].rate, r.least, 1e-9);
    EXPECT_FLOAT_EQ(static_cast<float>(range.points[0].loss), 1);
    for (std::size_t i = 1; i < range.points.size(); ++i) {
      EXPECT_NEAR(range.points[i].rate / range.points[i - 1].rate, factor, 1e-4);
      const double shrinks = 1 - 2 * range.points[i - 1].rate;
      EXPECT_NEAR(range.points[i].loss, range.points[i - 1].loss * shrinks * shrinks, 1e-4 * range.points[i - 1].loss);
    }
    EXPECT_EQ(parameters.get(parameters.all()[0]), std::vector<float>{1});
  }
}

TEST(RateRange, LeavesParametersAndMomentsAsTheyWere) {
  Training whole(small_options()), searched(small_options());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(whole.trainer.step());
    ASSERT_TRUE(searched.trainer.step());
  }
  searched.trainer.wait();
  const auto before = everything(searched.parameters);
  const auto search = [&](const RateRangeOptions& r) {
    return find_rates(searched.graph, searched.parameters, searched.training, nullptr, searched.trainer.options(), r);
  };
  const RateRange first = search({.steps = 30});
  EXPECT_EQ(everything(searched.parameters), before);
  const RateRange again = search({.steps = 30});
  ASSERT_EQ(first.points.size(), again.points.size());
  for (std::size_t i = 0; i < first.points.size(); ++i) EXPECT_EQ(first.points[i].loss, again.points[i].loss);
  // Rates at which the loss becomes infinite or NaN.
  const RateRange wild = search({.least = 1, .most = 1e30, .steps = 10, .stop_at = 1e300});
  EXPECT_TRUE(wild.diverged);
  EXPECT_LT(wild.points.size(), 10u);
  EXPECT_EQ(everything(searched.parameters), before);
  while (whole.trainer.step()) whole.trainer.after_step();
  while (searched.trainer.step()) searched.trainer.after_step();
  EXPECT_EQ(everything(searched.parameters), everything(whole.parameters));
}

TEST(RateRange, SuggestsWhereTheLossFallsFastest) {
  RateRange range;
  for (const double loss : {5.0, 5.0, 4.9, 4.0, 3.6, 3.5, 3.4, 3.9, 9.0}) {
    const double rate = std::pow(2.0, static_cast<double>(range.points.size()));
    range.points.push_back({rate, loss, loss});
  }
  suggest_rates(range);
  EXPECT_EQ(range.steepest, 8);  // from 4.9 to 3.6
  EXPECT_EQ(range.minimum, 64);
  for (RatePoint& p : range.points) p.smoothed = p.rate;
  suggest_rates(range);
  EXPECT_EQ(range.steepest, std::nullopt);
  range = {};
  suggest_rates(range);
  EXPECT_EQ(range.minimum, std::nullopt);
}

TEST(RateRange, SuggestsNoRateByALuckyBatch) {
  RateRange range;
  for (int i = 0; i < 100; ++i) {
    const double falls = i < 50 ? 5 : 5 - 0.1 * (i - 50), lucky = i >= 20 && i < 23 ? 0.15 * (i - 19) : 0;
    range.points.push_back({static_cast<double>(i), falls - lucky, falls - lucky});
  }
  suggest_rates(range);
  EXPECT_GE(range.steepest.value_or(0), 50);
}

TEST(RateRange, RefusesWhatIsNoRange) {
  const Graph graph = quadratic();
  const OneDataset data;
  Parameters parameters(graph, context(network_contexts().back()), 1);
  auto o = quadratic_options();
  const auto refusal = [&](const RateRangeOptions& r) {
    return message_of<InputError>([&] { find_rates(graph, parameters, data, nullptr, o, r); });
  };
  EXPECT_NE(refusal({.least = 0}).find("learning rates from 0 to 10"), std::string::npos);
  EXPECT_NE(refusal({.least = 1, .most = 1}).find("learning rates from 1 to 1"), std::string::npos);
  EXPECT_NE(refusal({.most = INFINITY}).find("learning rates from"), std::string::npos);
  EXPECT_NE(refusal({.steps = 2}).find("in 2 steps"), std::string::npos);
  EXPECT_NE(refusal({.smoothing = 1}).find("a smoothing of 1"), std::string::npos);
  EXPECT_NE(refusal({.stop_at = 1}).find("at 1 times the least loss"), std::string::npos);
  o.sync = SyncMode::parse("lag");
  EXPECT_NE(refusal({}).find("with synchronization lag"), std::string::npos);
}

}  // namespace
}  // namespace keelson::testing
