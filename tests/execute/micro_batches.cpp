#include "engine/execute/micro_batches.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/base/error.hpp"
#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/networks.hpp"

namespace keelson::testing {
namespace {

template <class T>
std::vector<T> add(std::vector<T> a, const std::vector<T>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

/// ((0 + 1) + (2 + 3)) + ...
template <class T>
std::vector<T> tree(const std::vector<std::vector<T>>& terms, std::size_t first, std::size_t count) {
  if (count == 1) return terms[first];
  return add(tree(terms, first, count / 2), tree(terms, first + count / 2, count / 2));
}

/// ((0 + 1) + 2) + ...
template <class T>
std::vector<T> one_after_the_other(const std::vector<std::vector<T>>& terms) {
  std::vector<T> sum = terms[0];
  for (std::size_t t = 1; t < terms.size(); ++t) sum = add(sum, terms[t]);
  return sum;
}

/// A convolution, dropout and a dense layer.
Graph network_with_dropout() {
  Graph g;
  const Var x = g.input("x", {3, 8, 8}), y = g.input("y", {2});
  const Var z = max_pool(relu(conv(x, {.filters = 4}, "conv")), 2);
  mse(dense(dropout(flatten(z), 0.25f, "drop"), 2, "out"), y);
  return g;
}

std::size_t bytes_of(const Executor& e, const std::string& purpose) {
  for (const auto& [what, bytes] : e.plan().memory())
    if (what == purpose) return bytes;
  return 0;
}

class MicroBatchTest : public ::testing::TestWithParam<std::string> {
 protected:
  Context& ctx() { return context(GetParam()); }

  template <class T>
  void expect_sums(SumOrder order, std::size_t terms, std::int64_t elements, int turns) {
    const Tensor value = ctx().allocate(TensorDesc::plain({elements}, dtype_of<T>), "terms");
    MicroBatchSums sums(ctx(), value, static_cast<std::int64_t>(terms), order);
    for (int turn = 0; turn < turns; ++turn) {
      std::vector<std::vector<T>> all(terms, std::vector<T>(static_cast<std::size_t>(elements)));
      for (std::size_t t = 0; t < terms; ++t) {
        for (std::size_t i = 0; i < all[t].size(); ++i)
          all[t][i] = static_cast<T>(std::sin(static_cast<double>(i * 7 + t)) * std::exp2((i + 3 * t) % 11));
        ctx().device().copy_from_host(value.raw(), all[t].data(), value.bytes());
        sums.add(static_cast<std::int64_t>(t));
      }
      std::vector<T> got(static_cast<std::size_t>(elements));
      ctx().device().copy_to_host(got.data(), value.raw(), value.bytes());
      EXPECT_EQ(got, order == SumOrder::tree ? tree(all, 0, terms) : one_after_the_other(all))
          << terms << " terms of " << elements << " elements";
    }
  }
};

TEST_P(MicroBatchTest, SumsAreTheTree) {
  for (const std::size_t terms : {1, 2, 4, 16})
    for (const std::int64_t elements : {1, 5, 4099}) {
      expect_sums<float>(SumOrder::tree, terms, elements, 2);
      expect_sums<double>(SumOrder::tree, terms, elements, 2);
    }
}

TEST_P(MicroBatchTest, SumsAreOneAfterTheOther) {
  for (const std::size_t terms : {1, 2, 3, 7}) {
    expect_sums<float>(SumOrder::any, terms, 4099, 2);
    expect_sums<double>(SumOrder::any, terms, 1, 2);
  }
}

/// With dropout, whose masks are those of the samples' places in the batch.
TEST_P(MicroBatchTest, GradientsAreTheTreeOfTheSamplesOwn) {
  const Graph g = network_with_dropout();
  Parameters parameters(g, ctx(), 1);
  PlanOptions options{.batch = 4};
  options.exchange.reproducible = true;
  Executor together(g, parameters, options);
  Executor alone(g, parameters, {.batch = 1});
  ASSERT_EQ(together.micro_batches(), 4);
  ops::StepParams params;
  params.inverse_samples = 0.25f;
  params.sample_offset = 8;
  std::vector<std::vector<double>> losses;
  std::map<std::string, std::vector<std::vector<float>>> gradients;
  for (std::int64_t m = 0; m < 4; ++m) {
    for (Executor* e : {&together, &alone}) {
      set_input(ctx(), *e, "x", oracle::random_uniform({1, 3, 8, 8}, fmt::format("x{}", m)));
      set_input(ctx(), *e, "y", oracle::random_uniform({1, 2}, fmt::format("y{}", m)));
    }
    together.forward(params, m);
    together.backward();
    ops::StepParams own = params;
    own.sample_offset += m;
    alone.forward(own);
    alone.backward();
    losses.push_back({alone.loss()});
    for (const Parameter& p : parameters.all()) gradients[p.name].push_back(alone.gradient(p.name));
  }
  EXPECT_EQ(together.loss(), tree(losses, 0, 4)[0]);
  for (const auto& [name, terms] : gradients) EXPECT_EQ(together.gradient(name), tree(terms, 0, 4)) << name;
  EXPECT_EQ(bytes_of(together, "gradients"), 3 * bytes_of(alone, "gradients"));
}

/// The samples of a batch: a pass reads some of them.
void set_samples(Context& ctx, Executor& e, std::int64_t first, std::int64_t count) {
  for (const auto& [name, sample] : {std::pair<std::string, Shape>{"x", {3, 8, 8}}, {"y", {2}}}) {
    std::vector<float> values;
    Shape shape{count};
    for (const auto d : sample) shape.push_back(d);
    for (std::int64_t i = first; i < first + count; ++i) {
      Shape one{1};
      for (const auto d : sample) one.push_back(d);
      const auto of_sample = oracle::random_uniform(one, fmt::format("{}{}", name, i)).data;
      for (const auto v : of_sample) values.push_back(static_cast<float>(v));
    }
    ctx.write_plain(e.input(name), values.data());
  }
}

/// Gradient accumulation: three passes of two samples, compared with the passes' own gradients, and with one pass.
TEST_P(MicroBatchTest, GradientsAreThoseOfOnePass) {
  const Graph g = network_with_dropout();
  Parameters parameters(g, ctx(), 1);
  Executor accumulated(g, parameters, {.batch = 6, .micro_batch_count = 3});
  Executor whole(g, parameters, {.batch = 6}), pair(g, parameters, {.batch = 2});
  ops::StepParams params;
  params.inverse_samples = 1.0f / 6;
  params.sample_offset = 12;
  for (int step = 0; step < 2; ++step, ++params.step) {
    std::vector<std::vector<double>> losses;
    std::map<std::string, std::vector<std::vector<float>>> gradients;
    set_samples(ctx(), whole, 0, 6);
    whole.forward(params);
    whole.backward();
    for (std::int64_t m = 0; m < 3; ++m) {
      set_samples(ctx(), accumulated, 2 * m, 2);
      set_samples(ctx(), pair, 2 * m, 2);
      accumulated.forward(params, m);
      accumulated.backward();
      ops::StepParams own = params;
      own.sample_offset += 2 * m;
      pair.forward(own);
      pair.backward();
      losses.push_back({pair.loss()});
      for (const Parameter& p : parameters.all()) gradients[p.name].push_back(pair.gradient(p.name));
    }
    EXPECT_EQ(accumulated.loss(), one_after_the_other(losses)[0]);
    EXPECT_NEAR(accumulated.loss(), whole.loss(), 1e-6 * whole.loss());
    for (const auto& [name, terms] : gradients) {
      const auto got = accumulated.gradient(name), want = whole.gradient(name);
      EXPECT_EQ(got, one_after_the_other(terms)) << name;
      float most = 0;
      for (const float v : want) most = std::max(most, std::abs(v));
      for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5f * most) << name;
    }
  }
  EXPECT_EQ(bytes_of(accumulated, "gradients"), 2 * bytes_of(whole, "gradients"));
  EXPECT_LT(bytes_of(accumulated, "activations"), bytes_of(whole, "activations"));
}

std::string refusal_of(const Graph& g, Context& ctx, const PlanOptions& options) {
  Parameters parameters(g, ctx, 1);
  try {
    const Plan plan(g, parameters, options);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST_P(MicroBatchTest, RefusesWhatCannotBeAddedUp) {
  const Graph g = network_with_dropout();
  EXPECT_NE(refusal_of(g, ctx(), {.batch = 6, .micro_batch_count = 4}).find("a multiple of"), std::string::npos);
  EXPECT_NE(refusal_of(g, ctx(), {.batch = 6, .micro_batch_count = 0}).find("a multiple of"), std::string::npos);
  PlanOptions reproducible{.batch = 4, .micro_batch_count = 2};
  reproducible.exchange.reproducible = true;
  EXPECT_NE(refusal_of(g, ctx(), reproducible).find("--reproducible"), std::string::npos);
  Graph mixing;
  mse(dense(flatten(batch_norm(mixing.input("x", {3, 4, 4}), {}, "norm")), 2, "out"), mixing.input("y", {2}));
  EXPECT_NE(refusal_of(mixing, ctx(), {.batch = 6, .micro_batch_count = 3}).find("norm"), std::string::npos);
  EXPECT_EQ(refusal_of(mixing, ctx(), {.batch = 6, .micro_batch_count = 3, .training = false}), "");
}

INSTANTIATE_TEST_SUITE_P(Contexts, MicroBatchTest, ::testing::ValuesIn(network_contexts()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace keelson::testing
