#include <gtest/gtest.h>

#include "backends/registry.hpp"

namespace keelson::testing {
namespace {

std::string refusal(const std::string& device) {
  try {
    backends::make_context(device);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Devices, TheBuildKnowsOneKind) {
  const auto known = backends::devices();
  ASSERT_EQ(known.size(), 1u);
  const std::string other = known[0] == "cpu" ? "cuda" : "cpu";
  for (const std::string& wish : {other, std::string("tpu")}) {
    const auto why = refusal(wish);
    EXPECT_NE(why.find("'" + wish + "'"), std::string::npos) << why;
    EXPECT_NE(why.find("this build computes on '" + known[0] + "'"), std::string::npos) << why;
    EXPECT_NE(why.find("build with"), std::string::npos) << "what to try: " << why;
  }
}

TEST(Devices, AutoIsWhatTheBuildKnows) {
  std::string why;
  if (!backends::device_available(&why)) {
    EXPECT_NE(refusal("auto").find(why), std::string::npos) << refusal("auto");
    GTEST_SKIP() << why;
  }
  const auto named = backends::make_context(backends::devices()[0])->describe();
  EXPECT_EQ(backends::make_context()->describe(), named);
  EXPECT_EQ(backends::make_context("auto")->describe(), named);
}

}  // namespace
}  // namespace keelson::testing
