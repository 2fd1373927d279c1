#include "engine/execute/micro_batches.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

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

class MicroBatchTest : public ::testing::TestWithParam<std::string> {
 protected:
  Context& ctx() { return context(GetParam()); }

  template <class T>
  void expect_tree(std::size_t terms, std::int64_t elements, int turns) {
    const Tensor value = ctx().allocate(TensorDesc::plain({elements}, dtype_of<T>), "terms");
    MicroBatchSums sums(ctx(), value, static_cast<std::int64_t>(terms));
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
      EXPECT_EQ(got, tree(all, 0, terms)) << terms << " terms of " << elements << " elements";
    }
  }
};

TEST_P(MicroBatchTest, SumsAreTheTree) {
  for (const std::size_t terms : {1, 2, 4, 16})
    for (const std::int64_t elements : {1, 5, 4099}) {
      expect_tree<float>(terms, elements, 2);
      expect_tree<double>(terms, elements, 2);
    }
}

/// With dropout, whose masks are those of the samples' places in the batch.
TEST_P(MicroBatchTest, GradientsAreTheTreeOfTheSamplesOwn) {
  Graph g;
  const Var x = g.input("x", {3, 8, 8}), y = g.input("y", {2});
  const Var z = max_pool(relu(conv(x, {.filters = 4}, "conv")), 2);
  mse(dense(dropout(flatten(z), 0.25f, "drop"), 2, "out"), y);
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
  const auto of = [](const Executor& e) {
    for (const auto& [what, bytes] : e.plan().memory())
      if (what == "gradients") return bytes;
    return std::size_t{0};
  };
  EXPECT_EQ(of(together), 3 * of(alone));
}

INSTANTIATE_TEST_SUITE_P(Contexts, MicroBatchTest, ::testing::ValuesIn(network_contexts()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace keelson::testing
