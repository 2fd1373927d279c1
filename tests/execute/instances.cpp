#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <filesystem>
#include <set>
#include <thread>

#include "engine/base/error.hpp"
#include "engine/optim/sgd.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/networks.hpp"

/// Executors on execution instances of their own.
namespace keelson::testing {
namespace {

constexpr int few_steps = 4;

Sgd clipped_momentum() {
  Sgd o;
  o.momentum = 0.9f;
  o.clip_norm = 2;
  return o;
}

class InstancesTest : public ::testing::TestWithParam<std::string> {
 protected:
  Context& ctx() { return context(GetParam()); }
  std::shared_ptr<ExecutionInstance> instance(int threads = 1) {
    return ctx().device().make_instance({.threads = ctx().device().shares_host_memory() ? threads : 0});
  }
  /// A plan of its own, on parameters of its own, all on `where`.
  TrainedSteps train_on(ExecutionInstance& where, const Graph& graph, std::uint64_t seed = 1) {
    const InstanceScope scope(where);
    Parameters parameters(graph, ctx(), seed);
    Executor executor(graph, parameters, training);
    return train_steps(ctx(), executor, parameters, few_steps);
  }

  const Sgd optimizer = clipped_momentum();
  const PlanOptions training{.batch = 2, .optimizer = &optimizer};
};

TEST_P(InstancesTest, ExecutorsRunAtTheSameTimeAsIfOneAfterTheOther) {
  const Graph graphs[2] = {volumes(), words()};
  const std::shared_ptr<ExecutionInstance> instances[2] = {instance(), instance()};
  TrainedSteps alone[2], together[2];
  for (int i = 0; i < 2; ++i) alone[i] = train_on(*instances[i], graphs[i]);
  std::barrier begin(2);
  const auto run = [&](int i) {
    for (int again = 0; again < 3; ++again) {
      begin.arrive_and_wait();
      together[i] = train_on(*instances[i], graphs[i]);
    }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(together[i], alone[i]);
}

TEST_P(InstancesTest, ExecutorsOfOnePlanTakeTurnsBetweenHostThreads) {
  const Graph graph = volumes();
  const auto makers = instance();
  const InstanceScope scope(*makers);
  Parameters model(graph, ctx(), 0);
  const Plan plan(graph, model, training);
  TrainedSteps alone[2], together[2];
  for (std::uint64_t i = 0; i < 2; ++i) alone[i] = train_on(*makers, graph, i);
  std::barrier begin(2);
  const auto run = [&](std::uint64_t i) {
    const auto own = instance();
    const InstanceScope inside(*own);
    Parameters parameters(graph, ctx(), i);
    Executor executor(plan, parameters, {.arena = {}, .instance = own});
    begin.arrive_and_wait();
    together[i] = train_steps(ctx(), executor, parameters, few_steps);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(together[i], alone[i]);
  EXPECT_NE(alone[0], alone[1]);
}

TEST_P(InstancesTest, ASubsetOfTheCoresGivesTheSameUpToRounding) {
  const Graph graph = volumes();
  const auto some = train_on(*instance(), graph), all = train_on(ctx().device().current_instance(), graph);
  const auto array = [](const std::vector<float>& v) {
    return Array({static_cast<std::int64_t>(v.size())}, std::vector<double>(v.begin(), v.end()));
  };
  EXPECT_LT(relative_error(array(some.parameters), array(all.parameters)), 1e-5);
}

/// Of this process, by their numbers.
std::set<std::string> os_threads() {
  std::set<std::string> numbers;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    numbers.insert(task.path().filename());
  return numbers;
}

// A kernel on the main instance, on Kokkos' default one or with a number of threads from elsewhere would start the
// threads of a new team: OpenMP has one team per host thread.
TEST_P(InstancesTest, AnInstanceOfOneThreadStartsNoOther) {
  if (!ctx().device().shares_host_memory()) GTEST_SKIP() << "an instance has threads on a CPU only";
  if (ctx().device().current_instance().concurrency() < 2) GTEST_SKIP() << "needs at least two threads";
  const auto one = instance(1), two = instance(2);
  int started[2] = {-1, -1};
  for (int i = 0; i < 2; ++i)
    std::thread([&] {
      const auto before = os_threads();
      for (const Graph& graph : {volumes(), words()}) train_on(i ? *two : *one, graph);
      const auto after = os_threads();
      started[i] = static_cast<int>(
          std::count_if(after.begin(), after.end(), [&](const auto& t) { return !before.contains(t); }));
    }).join();
  EXPECT_EQ(started[0], 0);
  EXPECT_EQ(started[1], 1) << "else the test sees nothing";
}

TEST_P(InstancesTest, RefusesAnotherNumberOfThreadsThanThePlansAndMoreThanThereAre) {
  if (!ctx().device().shares_host_memory()) GTEST_SKIP() << "an instance has threads on a CPU only";
  const int all = ctx().device().current_instance().concurrency();
  const auto why = [](const auto& what) -> std::string {
    try {
      what();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(why([&] { instance(all + 1); }).find(fmt::format("give 1 to {}", all)), std::string::npos);
  EXPECT_NE(why([&] { instance(-1); }).find(fmt::format("give 1 to {}", all)), std::string::npos);
  if (all < 2) GTEST_SKIP() << "needs at least two threads";
  const Graph graph = words();
  Parameters parameters(graph, ctx(), 1);
  const Plan plan(graph, parameters, training);
  EXPECT_NE(why([&] {
              Executor(plan, parameters, {.arena = {}, .instance = instance(1)});
            }).find("make the plan in an InstanceScope"),
            std::string::npos);
}

TEST_P(InstancesTest, ScopesNest) {
  Device& device = ctx().device();
  ExecutionInstance& main = device.current_instance();
  const auto outer = instance(), inner = instance();
  {
    const InstanceScope a(*outer);
    EXPECT_EQ(&device.current_instance(), outer.get());
    {
      const InstanceScope b(*inner);
      EXPECT_EQ(&device.current_instance(), inner.get());
    }
    EXPECT_EQ(&device.current_instance(), outer.get());
    std::thread([&] { EXPECT_EQ(&device.current_instance(), &main) << "of another host thread"; }).join();
  }
  EXPECT_EQ(&device.current_instance(), &main);
}

INSTANTIATE_TEST_SUITE_P(Contexts, InstancesTest, ::testing::ValuesIn(network_contexts()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace keelson::testing
