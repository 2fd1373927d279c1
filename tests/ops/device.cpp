#include "engine/ops/device.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "engine/base/error.hpp"
#include "tests/support/fake_async_device.hpp"

namespace keelson::testing {
namespace {

class DeviceWaits : public ::testing::Test {
 protected:
  FakeAsyncDevice device{FakeAsyncDevice::Reach::device};
  int looked = 0;
  std::shared_ptr<void> watch = device.watch_waits([this](double seconds) {
    ++looked;
    EXPECT_GE(seconds, 0.5);
  });
};

TEST_F(DeviceWaits, AreLookedAtWhenTheyAreLong) {
  bool done = false;
  device.queue([&] { done = true; });
  device.fence();
  EXPECT_TRUE(done);
  EXPECT_EQ(looked, 0);
  device.stall(1);
  device.fence();
  EXPECT_FALSE(device.stalls());
  EXPECT_GT(looked, 0);
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
  const auto broken = device.watch_waits([](double) { fail("the exchange has failed"); });
  device.stall(60);
  EXPECT_THROW(device.fence(), Error);
  EXPECT_TRUE(device.stalls());
  device.stall(0);
}

}  // namespace
}  // namespace keelson::testing
