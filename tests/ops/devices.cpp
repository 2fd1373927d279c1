#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <thread>

#include "backends/registry.hpp"
#include "engine/base/error.hpp"
#include "engine/tune/autotuner.hpp"
#include "tests/support/fake_async_device.hpp"

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

std::string choices_of(const std::string& backends) {
  const auto context = backends::make_context("", backends);
  const auto* chooser = context->device().autotuner();
  return chooser ? chooser->file().filename().string() : "";
}

/// What a build without AVX, without optimization or with another oneDNN has chosen is not for this one.
TEST(Devices, KeepChoicesOfAlgorithmsForTheirProcessorAndBuild) {
  if (std::string why; !backends::device_available(&why)) GTEST_SKIP() << why;
  const auto context = backends::make_context("", "kokkos");
  const auto* chooser = context->device().autotuner();
  if (!chooser || chooser->file().empty()) GTEST_SKIP() << "this device measures elsewhere, or keeps no file";
  const auto width = fmt::format("-{}-floats", context->device().vector_width());
  const auto own = choices_of("kokkos"), all = choices_of("");
  EXPECT_NE(own.find(width), std::string::npos) << own;
  EXPECT_EQ(own.find("onednn"), std::string::npos) << own;
  const auto known = backends::available();
  const bool onednn = std::find(known.begin(), known.end(), "onednn") != known.end();
  EXPECT_EQ(std::regex_search(all, std::regex("-onednn-[0-9]+[.][0-9]+[.][0-9]+-v[0-9]+[.]json$")), onednn) << all;
#ifdef KEELSON_SANITIZED
  EXPECT_NE(all.find(width + "-debug"), std::string::npos) << all;
#endif
}

/// Of host threads for a device.
class DeviceWaits : public ::testing::Test {
 protected:
  FakeAsyncDevice device{FakeAsyncDevice::Reach::device};
  int looked = 0;
  std::shared_ptr<void> watch = device.watch_waits([this](double seconds) {
    ++looked;
    EXPECT_GE(seconds, 0.5);
    device.stall(0);
  });
};

TEST_F(DeviceWaits, AreLookedAtWhenTheyAreLong) {
  bool done = false;
  device.queue([&] { done = true; });
  device.fence();
  EXPECT_TRUE(done);
  EXPECT_EQ(looked, 0);
  device.stall(600);
  device.fence();
  EXPECT_EQ(looked, 1);
}

TEST_F(DeviceWaits, AreLookedAtInTheThreadThatAskedForIt) {
  device.stall(1);
  std::thread([&] { device.wait_until([&] { return !device.stalls(); }); }).join();
  EXPECT_EQ(looked, 0) << "MPI may be called from one thread only";
}

TEST_F(DeviceWaits, AreNoLongerLookedAt) {
  watch.reset();
  device.stall(1);
  device.fence();
  EXPECT_EQ(looked, 0);
}

TEST_F(DeviceWaits, EndWhereTheWatchdogThrows) {
  watch = device.watch_waits([](double) { fail("the exchange has failed"); });
  device.stall(60);
  EXPECT_THROW(device.fence(), Error);
  EXPECT_TRUE(device.stalls());
  device.stall(0);
}

}  // namespace
}  // namespace keelson::testing
