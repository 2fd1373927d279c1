#include "engine/execute/choose_precision.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/registry.hpp"
#include "engine/base/error.hpp"
#include "tests/support/choice_folder.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/networks.hpp"

namespace keelson::testing {
namespace {
namespace fs = std::filesystem;

constexpr PlanOptions two_samples{.batch = 2};

TEST(ChoosePrecision, TakesWords) {
  Context& ctx = context(network_contexts().back());
  const Graph g = volumes();
  EXPECT_EQ(choose_precision("fp32", g, ctx, two_samples), Precision::fp32);
  EXPECT_EQ(choose_precision("bf16", g, ctx, two_samples), Precision::bf16);
  EXPECT_THROW(choose_precision("fp8", g, ctx, two_samples), InputError);
}

TEST(ChoosePrecision, KeepsWhatItHasMeasured) {
  const ChoiceFolder folder("precision");
  const Graph g = volumes();
  if (!backends::device_available()) GTEST_SKIP() << "there is no device";
  const auto choose = [&] { return choose_precision("auto", g, *backends::make_context(), two_samples); };
  const Precision first = choose();
  fs::create_directories(folder.path());  // where nothing was measured there is none
  nlohmann::json kept;
  fs::path file;
  for (const auto& f : fs::directory_iterator(folder.path()))
    if (f.path().extension() == ".json") {
      const auto all = nlohmann::json::parse(std::ifstream(f.path()));
      for (const auto& [key, choice] : all.items())
        if (key.starts_with("precision of a step")) kept = choice, file = f.path();
    }
  if (file.empty()) {
    EXPECT_EQ(first, Precision::fp32) << "no plan of 16 bits differs from that of fp32: there is nothing to choose";
    return;
  }
  EXPECT_EQ(kept.get<std::string>(), to_string(first));

  // Measuring again would not change what is faster.
  const Precision other = first == Precision::fp32 ? Precision::bf16 : Precision::fp32;
  auto all = nlohmann::json::parse(std::ifstream(file));
  for (auto& [key, choice] : all.items())
    if (key.starts_with("precision of a step")) choice = to_string(other);
  std::ofstream(file) << all;
  EXPECT_EQ(choose(), other);

  ::setenv("KEELSON_TUNE", "off", 1);
  EXPECT_EQ(choose(), choose_precision("default", g, *backends::make_context(), two_samples));
}

}  // namespace
}  // namespace keelson::testing
