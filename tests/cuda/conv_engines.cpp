#include "backends/cuda/conv_engines.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "backends/cuda/padded_channels.hpp"

/// Which convolutions cuDNN takes, asked for GPUs that need not be here: its heuristics and its compiled kernels need
/// none. What it would compile at run time needs the GPU, so it is proposed here but does not get ready.
namespace keelson::testing {
namespace {

using ops::Verb;

struct GpuCase {
  std::string name;
  int version, multiprocessors, shared_memory;
  std::int64_t bytes;
};

/// cuDNN's own form of describing a GPU.
std::string described(const GpuCase& g) {
  return fmt::format(
      R"({{"deviceName": "{}", "deviceVer": {}, "driverVer": 13000, "cudaDeviceId": 0, "pciDeviceId": 0,
           "multiProcessorCount": {}, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
           "maxSharedMemoryPerBlockOptin": {}, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
           "regsPerBlock": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
           "isTccDriver": 0, "supportCoopLaunch": 1, "totalGlobalMem": {}, "smClockRateKHz": 1500000,
           "memClockRateKHz": 1600000, "l2CacheSize": 41943040, "maxGridSize": [2147483647, 65535, 65535],
           "maxBlockSize": [1024, 1024, 64]}})",
      g.name, g.version, g.multiprocessors, g.shared_memory, g.bytes);
}

class ConvEnginesTest : public ::testing::TestWithParam<GpuCase> {
 protected:
  using Names = std::vector<std::string>;

  void SetUp() override {
    if (!cuda::conv_engines(described(GetParam()), conv(16, 16, 8, DType::f32), Verb::forward))
      GTEST_SKIP() << "this build has no cuDNN, or one before 9.11";
  }

  static ops::ConvDesc conv(std::int64_t channels, std::int64_t filters, std::int64_t extent, DType type) {
    ops::ConvDesc d;
    const Shape ones = Shape::filled(3, 1);
    d.params = {Shape::filled(3, 3), ones, ones, ones, ones, 1, true, {ops::EltwiseKind::leaky_relu, 0.3f, 0}};
    d.src = {{1, channels, extent, extent, extent}, type, Layout::any()};
    d.weights = {{filters, channels, 3, 3, 3}, type, Layout::any()};
    d.dst = {{1, filters, extent, extent, extent}, type, Layout::any()};
    return d;
  }

  static std::vector<cuda::ConvEngine> proposed(const ops::ConvDesc& d, Verb v) {
    return cuda::conv_engines(described(GetParam()), d, v).value();
  }
  /// Those that get ready.
  static Names engines(const ops::ConvDesc& d, Verb v) {
    Names names;
    for (const auto& e : proposed(d, v))
      if (e.ready) names.push_back(e.name);
    return names;
  }

  static bool any(const Names& names, const std::string& way) {
    return std::any_of(names.begin(), names.end(), [&](const auto& n) { return n.starts_with(way); });
  }
};

constexpr Verb verbs[] = {Verb::forward, Verb::backward_data, Verb::backward_weights};

TEST_P(ConvEnginesTest, CosmoFlowHasEnginesInEveryPrecision) {
  for (const auto type : {DType::f32, DType::bf16, DType::f16})
    for (const bool tf32 : {false, true})
      for (std::int64_t channels = 32, extent = 64; channels <= 256; channels *= 2, extent /= 2) {
        auto d = conv(channels, 2 * channels, extent, type);
        d.tf32 = tf32;
        for (const auto v : verbs)
          EXPECT_FALSE(engines(d, v).empty()) << to_string(type) << " " << channels << " channels " << to_string(v);
      }
}

TEST_P(ConvEnginesTest, FewChannelsAreTriedPaddedAndAsTheyAre) {
  const auto d = conv(4, 32, 128, DType::bf16);
  for (const auto v : {Verb::forward, Verb::backward_weights}) {
    const auto names = engines(d, v);
    EXPECT_TRUE(any(names, "pad8/")) << to_string(v);
    EXPECT_FALSE(names.empty() ||
                 std::all_of(names.begin(), names.end(), [](const auto& n) { return n.starts_with("pad8/"); }))
        << to_string(v);
  }
  EXPECT_FALSE(any(engines(d, Verb::backward_data), "pad8/"));
  EXPECT_FALSE(any(engines(conv(16, 32, 16, DType::bf16), Verb::forward), "pad8/"));
}

/// A source that has its channels padded is read where it lies.
TEST_P(ConvEnginesTest, PaddedSourcesAreNotPaddedAgain) {
  for (const auto& [type, tf32, channels] : {std::tuple{DType::bf16, false, 8}, {DType::f32, true, 4}}) {
    auto d = conv(3, 32, 128, type);
    d.tf32 = tf32;
    d.src.layout = cuda::PaddedChannels::layout(d.src.shape, type, channels);
    EXPECT_EQ(d.src.bytes(), static_cast<std::size_t>(channels) * 128 * 128 * 128 * size_of(type));
    for (const auto v : {Verb::forward, Verb::backward_weights}) {
      const auto names = engines(d, v);
      EXPECT_FALSE(names.empty());
      for (const auto& n : names) EXPECT_TRUE(n.starts_with(fmt::format("pad{}/", channels))) << n;
    }
  }
}

TEST_P(ConvEnginesTest, ExactF32KeepsOffTensorCores) {
  const auto exact = engines(conv(32, 64, 64, DType::f32), Verb::forward);
  auto d = conv(32, 64, 64, DType::f32);
  d.tf32 = true;
  const auto rounded = engines(d, Verb::forward);
  EXPECT_FALSE(exact.empty());
  EXPECT_TRUE(std::any_of(rounded.begin(), rounded.end(), [&](const auto& n) {
    return std::find(exact.begin(), exact.end(), n) == exact.end();
  })) << "tf32 has no engine of its own";
}

TEST_P(ConvEnginesTest, EverythingThatConvolutionsMayHave) {
  auto strided = conv(24, 40, 15, DType::bf16);
  strided.params.stride = strided.params.dilation = {2, 1, 1};
  strided.params.pad_begin = {2, 1, 0};
  strided.params.pad_end = {1, 1, 2};
  strided.dst.shape = ops::conv_dst_shape(strided.src.shape, strided.params, 40);
  auto flat = conv(16, 16, 8, DType::f16);
  const Shape one{1};
  flat.params = {{5}, one, one, {2}, {2}, 1, false, {}};
  flat.src.shape = flat.dst.shape = {2, 16, 100};
  flat.weights.shape = {16, 16, 5};
  auto grouped = conv(32, 32, 8, DType::f32);
  grouped.params.groups = 4;
  grouped.weights.shape[1] = 8;
  for (const auto& [what, d] :
       {std::pair{"stride, dilation and uneven padding", strided}, {"one dimension", flat}, {"groups", grouped}})
    for (const auto v : verbs) EXPECT_FALSE(engines(d, v).empty()) << what << ", " << to_string(v);
}

TEST_P(ConvEnginesTest, FewEnginesAreTriedWithTheirFirstSettings) {
  for (const auto type : {DType::bf16, DType::f16})
    for (std::int64_t channels = 32, extent = 64; channels <= 256; channels *= 2, extent /= 2)
      for (const auto v : verbs) {
        const auto what = fmt::format("{}, {} channels, {}", to_string(type), channels, to_string(v));
        std::map<std::string, std::map<std::int64_t, int>> ways;  // settings by way and engine
        for (const auto& e : proposed(conv(channels, 2 * channels, extent, type), v)) {
          ++ways[e.name.substr(0, e.name.rfind('/') + 1)][e.engine];
          EXPECT_TRUE(e.ready || e.compiles) << e.name;
        }
        ways.erase("fused/");  // which few engines can do
        ASSERT_FALSE(ways.empty()) << what;
        for (const auto& [way, engines] : ways) {
          int all = 0, most = 0;
          for (const auto& [engine, settings] : engines) all += settings, most = std::max(most, settings);
          EXPECT_GE(engines.size(), 3U) << what << " " << way;
          EXPECT_LE(all, 4) << what << " " << way;
          EXPECT_EQ(most, 1) << what << " " << way;
        }
      }
}

TEST_P(ConvEnginesTest, TheOrderIsTheSameEachTime) {
  const auto d = conv(64, 128, 32, DType::bf16);
  for (const auto v : verbs) EXPECT_EQ(engines(d, v), engines(d, v));
}

TEST_P(ConvEnginesTest, WeightGradientsOf16BitOperandsAreRounded) {
  for (const auto type : {DType::bf16, DType::f16})
    for (const auto& name : engines(conv(32, 64, 64, type), Verb::backward_weights))
      EXPECT_TRUE(name.starts_with("rounded/")) << name << ": those that write f32 compile their kernels, and are slow";
}

TEST_P(ConvEnginesTest, BiasAndActivationAreFusedWhereTheResultIsLarge) {
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr) GTEST_SKIP() << "no libcuda.so.1, not even a stub";
  const auto is_fused = [](const auto& e) { return e.name.find("fused/") != std::string::npos && e.compiles; };
  const auto large = proposed(conv(32, 64, 64, DType::bf16), Verb::forward);
  EXPECT_TRUE(std::any_of(large.begin(), large.end(), is_fused));
  const auto small = proposed(conv(256, 512, 8, DType::bf16), Verb::forward);
  EXPECT_FALSE(std::any_of(small.begin(), small.end(), is_fused));
}

INSTANTIATE_TEST_SUITE_P(Gpus, ConvEnginesTest,
                         ::testing::Values(GpuCase{"A100", 800, 108, 166912, std::int64_t{80} << 30},
                                           GpuCase{"H200", 900, 132, 232448, std::int64_t{140} << 30}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace keelson::testing
