#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "backends/registry.hpp"
#include "engine/execute/executor.hpp"
#include "nets/cosmoflow/cosmoflow.hpp"
#include "nets/tiramisu/tiramisu.hpp"
#include "tests/support/contexts.hpp"

/// The reorders of one training step of the CosmoFlow networks at full size, and of Tiramisu: how many, of what, in
/// which direction. A reorder costs time and nothing else shows it, so each context's list is pinned.
namespace keelson::testing {
namespace {

using Lines = std::vector<std::string>;

/// A backend's own layout has another name on another processor: "own" for all of them. A slice is "own", too.
Lines with_own_layouts(const Lines& reorders) {
  Lines lines;
  for (const std::string& line : reorders)
    lines.push_back(std::regex_replace(line, std::regex("(strided [0-9,]+|onednn:\\w+)"), "own"));
  return lines;
}

/// Weights lie as forward reads them; both backends' backward, and Winograd's algorithms, read and write weights
/// channels-last: only conv5 is too small for these. Values between layers are channels-last throughout, so no value is
/// reordered.
const Lines mlperf_reorders{
    "conv5/diff_weights: channels-last -> own",
    "conv5/weights: own -> channels-last",
};

/// oneDNN blocks the result of conv1, which has one channel in: one block of 16 channels, which is channels-last in
/// memory. The reorders turn weights, between the layouts of forward and backward.
const Lines paper_reorders_of_mix{
    "conv7/diff_weights: own -> own", "conv7/weights: own -> own",      "conv6/diff_weights: own -> own",
    "conv6/weights: own -> own",      "conv3/diff_weights: own -> own", "conv3/weights: own -> own",
};

/// Without those of weights. Outputs are handed out in plain order. The deconvolutions read slices of the gradients of
/// the concatenations behind them, which convolutions do not read where they lie. The gradients of their weights are
/// the only calls of oneDNN that read blocks: of the source and of the gradient of the result.
const Lines tiramisu_values_of_kokkos{
    "output_dropout/dst: channels-last -> plain", "concat27/diff_dst: own -> channels-last",
    "concat24/diff_dst: own -> channels-last",    "concat21/diff_dst: own -> channels-last",
    "concat16/diff_dst: own -> channels-last",
};
const Lines tiramisu_values_of_mix{
    "output_dropout/dst: channels-last -> plain",
    "concat27/diff_dst: own -> channels-last",
    "concat27/diff_dst: own -> own",
    "concat26/dst: channels-last -> own",
    "concat24/diff_dst: own -> channels-last",
    "concat24/diff_dst: own -> own",
    "concat23/dst: channels-last -> own",
    "concat21/diff_dst: own -> channels-last",
    "concat21/diff_dst: own -> own",
    "concat20/dst: channels-last -> own",
    "concat16/diff_dst: own -> channels-last",
    "concat16/diff_dst: own -> own",
    "concat15/dst: channels-last -> own",
};

class Reorders : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!on().device().has_small_caches()) skip("values are laid out as for a GPU: see TurnsNothingRoundOnADevice");
  }
  static Context& on() { return context(GetParam()); }
  /// oneDNN chooses other layouts where it has no fast kernels.
  static void needs(DType type) {
    for (const std::string& backend : backends_of(GetParam()))
      if (!backends::computes_in(backend, type))
        skip(backend + " does not compute in " + std::string(to_string(type)) + " on this processor");
  }
  static void expect(const Graph& graph, const Lines& pinned, bool of_weights = true) {
    Parameters parameters(graph, on(), 1);
    const Executor executor(graph, parameters, {.batch = 1});
    Lines found = executor.plan().reorders();
    if (!of_weights) std::erase_if(found, [](const auto& line) { return line.find("weights:") != std::string::npos; });
    EXPECT_EQ(with_own_layouts(found), pinned);
    for (const std::string& line : found) std::printf("%s: %s\n", GetParam().c_str(), line.c_str());
  }
};

TEST_P(Reorders, OfMlperfArePinned) {
  needs(DType::f32);  // AVX2
  expect(nets::cosmoflow_mlperf(), mlperf_reorders);
}

TEST_P(Reorders, OfThePaperArePinned) {
  needs(DType::bf16);  // AVX-512, whose kernels choose the layouts
  const std::map<std::string, Lines> pinned{{"kokkos", {}}, {"mix", paper_reorders_of_mix}};
  ASSERT_TRUE(pinned.contains(GetParam())) << "pin the reorders of this context";
  expect(nets::cosmoflow_paper(), pinned.at(GetParam()));
}

TEST_P(Reorders, OfTiramisusValuesArePinned) {
  needs(DType::bf16);
  const std::map<std::string, Lines> pinned{{"kokkos", tiramisu_values_of_kokkos}, {"mix", tiramisu_values_of_mix}};
  ASSERT_TRUE(pinned.contains(GetParam())) << "pin the reorders of this context";
  expect(nets::tiramisu({.rows = 192, .columns = 288}), pinned.at(GetParam()), /*of_weights=*/false);
}

INSTANTIATE_TEST_SUITE_P(Nets, Reorders, ::testing::ValuesIn(network_contexts()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace keelson::testing
