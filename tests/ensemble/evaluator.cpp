#include "engine/ensemble/evaluator.hpp"

#include <gtest/gtest.h>

#include "engine/base/error.hpp"
#include "tests/train/support.hpp"

namespace keelson::ensemble::testing {
namespace {

using keelson::testing::context;
using keelson::testing::CubeDataset;
using keelson::testing::message_of;
using keelson::testing::network_contexts;

/// Predicts both targets and their variances.
Graph uncertain_network(std::int64_t units, std::int64_t targets = 2) {
  Graph g;
  const Var x = g.input("x", {2, 6, 6, 6}), y = g.input("y", {2});
  const Var h = relu(dense(flatten(x), units, "dense1"));
  const Var mean = dense(h, targets, "mean"), spread = dense(h, targets, "spread");
  g.set_output("prediction", mean);
  g.set_output("variance", gaussian_variance(spread));
  if (targets == 2) gaussian_nll(mean, spread, y);
  return g;
}

/// Keeps what the members predict.
struct Kept final : Combination {
  std::vector<std::vector<float>> means, variances;
  void reset(const MetricSetup&, std::int64_t members) override {
    means.assign(static_cast<std::size_t>(members), {});
    variances = means;
  }
  const float* update(const MemberPredictions& batch) override {
    for (std::size_t m = 0; m < batch.members.size(); ++m) {
      means[m].insert(means[m].end(), batch.members[m], batch.members[m] + 2 * batch.count);
      if (!batch.variances.empty())
        variances[m].insert(variances[m].end(), batch.variances[m], batch.variances[m] + 2 * batch.count);
    }
    return batch.members[0];
  }
  void reduce(Communicator*) override {}
};

TEST(EnsembleEvaluator, MembersOfDifferentDesignWithVariances) {
  Context& ctx = context(network_contexts().back());
  const CubeDataset data(7);
  const Graph graphs[] = {uncertain_network(5), uncertain_network(9)};
  Parameters first(graphs[0], ctx, 1), second(graphs[1], ctx, 2);
  const EnsembleEvaluatorOptions options{.batch = 4, .variance = "variance"};
  Kept both;
  EnsembleEvaluator({{&graphs[0], &first}, {&graphs[1], &second}}, data, nullptr, options).run(both);
  for (std::size_t m = 0; m < 2; ++m) {
    Kept alone;
    EnsembleEvaluator({{&graphs[m], m == 0 ? &first : &second}}, data, nullptr, options).run(alone);
    ASSERT_EQ(both.means[m].size(), 14u);
    EXPECT_EQ(both.means[m], alone.means[0]);
    EXPECT_EQ(both.variances[m], alone.variances[0]);
    for (const float v : both.variances[m]) EXPECT_GT(v, 0);
  }
  EXPECT_NE(both.means[0], both.means[1]);

  ValueCombination scores;
  EnsembleEvaluator({{&graphs[0], &first}, {&graphs[1], &second}}, data, nullptr, options).run(scores);
  for (std::size_t t = 0; t < 2; ++t) {
    double aleatoric = 0, epistemic = 0;
    for (std::size_t n = 0; n < 7; ++n) {
      const std::size_t i = 2 * n + t;
      aleatoric += (static_cast<double>(both.variances[0][i]) + both.variances[1][i]) / 2;
      epistemic += std::pow((static_cast<double>(both.means[0][i]) - both.means[1][i]) / 2, 2);
    }
    EXPECT_NEAR(scores.targets()[t].aleatoric(), aleatoric / 7, 1e-12);
    EXPECT_NEAR(scores.targets()[t].epistemic(), epistemic / 7, 1e-12);
    EXPECT_EQ(scores.targets()[t].member_nll().size(), 2u);
    EXPECT_TRUE(std::isfinite(scores.targets()[t].nll()));
  }
}

TEST(EnsembleEvaluator, RefusesMembersThatPredictOtherThings) {
  Context& ctx = context(network_contexts().back());
  const CubeDataset data(7);
  const Graph graphs[] = {uncertain_network(5), uncertain_network(5, 3)}, plain = keelson::testing::small_network(0);
  Parameters first(graphs[0], ctx, 1), second(graphs[1], ctx, 2), third(plain, ctx, 3);
  const auto refusal = [&](std::vector<EnsembleMember> members, const EnsembleEvaluatorOptions& o) {
    return message_of<InputError>([&] { EnsembleEvaluator(members, data, nullptr, o); });
  };
  EXPECT_NE(refusal({{&graphs[0], &first}, {&graphs[1], &second}}, {}).find("member 1 has the output prediction"),
            std::string::npos);
  EXPECT_NE(refusal({{&graphs[0], &first}, {&plain, &third}}, {.variance = "variance"}).find("no output variance"),
            std::string::npos);
}

}  // namespace
}  // namespace keelson::ensemble::testing
