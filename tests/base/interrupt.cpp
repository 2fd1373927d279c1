#include "engine/base/interrupt.hpp"

#include <gtest/gtest.h>
#include <signal.h>

namespace keelson {
namespace {

TEST(Interrupt, KeepsTheFirstSignal) {
  EXPECT_FALSE(Interrupt::requested());
  EXPECT_EQ(Interrupt::signal_name(), "");
  Interrupt::install();
  Interrupt::install();
  raise(SIGUSR1);
  raise(SIGTERM);
  EXPECT_TRUE(Interrupt::requested());
  EXPECT_EQ(Interrupt::signal_number(), SIGUSR1);
  EXPECT_EQ(Interrupt::signal_name(), "SIGUSR1");
  EXPECT_EQ(Interrupt::signal_name(SIGINT), "SIGINT");
  Interrupt::uninstall();
  EXPECT_FALSE(Interrupt::requested());
}

int hosts = 0;

TEST(Interrupt, GivesTheSignalsBack) {
  struct sigaction host{}, before{};
  host.sa_handler = [](int) { ++hosts; };
  sigaction(SIGTERM, &host, &before);
  Interrupt::install();
  raise(SIGTERM);
  EXPECT_EQ(hosts, 0);
  Interrupt::uninstall();
  raise(SIGTERM);
  EXPECT_EQ(hosts, 1);
  sigaction(SIGTERM, &before, nullptr);
}

TEST(InterruptDeathTest, ASecondInterruptEndsTheProcess) {
  EXPECT_EXIT(
      {
        Interrupt::install();
        raise(SIGINT);
        raise(SIGINT);
        _exit(0);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace keelson
