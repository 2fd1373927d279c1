#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

#include "engine/optim/sgd.hpp"
#include "nets/cosmoflow/cosmoflow.hpp"
#include "tests/support/allocations.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/fake_async_context.hpp"
#include "tests/support/networks.hpp"

/// What a whole MLPerf CosmoFlow step may cost at its real size, 128^3, batch 1, in training with momentum: counts and
/// bytes, never seconds.
namespace keelson::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

double peak_resident_gb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 * 1e-9;
}

/// On a device of its own channels-last is chosen once, for all values between layers, which are short where products
/// are; and gradients lie as parameters do.
TEST(MlperfAtFullSize, TurnsNothingRoundOnADevice) {
  const auto fake = make_fake_async_context();
  std::vector<Context*> devices{fake.get()};
  if (Context& own = context(network_contexts().back()); own.device().is_asynchronous()) devices.push_back(&own);
  for (Context* device : devices)
    for (const auto precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
      const Graph graph = nets::cosmoflow_mlperf();
      Parameters parameters(graph, *device, 1);
      Sgd optimizer;
      optimizer.momentum = 0.9f;
      const Executor executor(graph, parameters, {.batch = 1, .precision = precision, .optimizer = &optimizer});
      EXPECT_TRUE(executor.plan().reorders().empty())
          << to_string(precision) << ": " << executor.plan().reorders().front();
      double gigabytes = 0;
      for (const PlanRow& r : executor.rows()) gigabytes += r.megabytes * 1e-3;
      std::printf("%s: %.2f GB a step\n", std::string(to_string(precision)).c_str(), gigabytes);
    }
}

TEST(MlperfAtFullSize, ArenaIsAsSmallAsItCanBe) {
  for (const std::string& name : network_contexts()) {
    const Graph graph = nets::cosmoflow_mlperf();
    Parameters parameters(graph, context(name), 1);
    const Executor executor(graph, parameters, {.batch = 1});
    EXPECT_LE(static_cast<double>(executor.plan().arena_bytes()),
              1.02 * static_cast<double>(executor.plan().arena_lower_bound()))
        << name;
  }
}

/// Operands read and written once by every call: 855 MB with oneDNN on AVX-512 (3265 MB when each convolution's
/// result and its gradient were). One pass over conv1's result would be 268 MB.
TEST(MlperfAtFullSize, MovesNoMoreMemoryThanPinned) {
  for (const std::string& name : network_contexts()) {
    if (!context(name).device().has_small_caches()) continue;
    const Graph graph = nets::cosmoflow_mlperf();
    Parameters parameters(graph, context(name), 1);
    Sgd optimizer;
    optimizer.momentum = 0.9f;
    const Executor executor(graph, parameters, {.batch = 1, .optimizer = &optimizer});
    double megabytes = 0;
    for (const PlanRow& r : executor.rows()) megabytes += r.megabytes;
    std::printf("%s: %.0f MB\n", name.c_str(), megabytes);
    EXPECT_LT(megabytes, 1000) << name;
  }
}

TEST(MlperfAtFullSize, AStepStaysUnder1300MegabytesAndAllocatesNothing) {
  if (sanitized) GTEST_SKIP() << "a sanitizer's own memory would be counted";
  const std::string name = network_contexts().back();
  if (name == "kokkos") GTEST_SKIP() << "needs oneDNN";
  Context& ctx = context(name);
  const Graph graph = nets::cosmoflow_mlperf();
  Parameters parameters(graph, ctx, 1);
  Sgd optimizer;
  optimizer.momentum = 0.9f;
  Executor executor(graph, parameters, {.batch = 1, .optimizer = &optimizer});
  const auto step = [&] {
    executor.forward({});
    executor.backward();
    executor.update();
  };
  step();
  for (int i = 0; ctx.device().can_capture() && i < 2; ++i) step();  // the third step captures the last graph
  const Allocations used = allocations_of(step);
  EXPECT_LE(used.bytes,
            4096 * static_cast<std::int64_t>(executor.rows().size()));  // by depth tiles, a call is many executions
  EXPECT_LT(peak_resident_gb(), 1.3);
}

}  // namespace
}  // namespace keelson::testing
