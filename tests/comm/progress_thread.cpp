#include "comm/mpi/progress_thread.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace keelson::comm::detail {
namespace {

TEST(ProgressThread, WorksOnlyWhileItMay) {
  long calls = 0;  // of both threads, never at the same time
  ProgressThread thread([&] { ++calls; }, {});
  EXPECT_EQ(calls, 0);
  for (int turn = 0; turn < 100; ++turn) {
    thread.resume();
    if (turn % 2 == 0) std::this_thread::yield();
    thread.pause();
    const long before = calls;
    std::this_thread::yield();
    EXPECT_EQ(calls, before);
    ++calls;
  }
  thread.pause();  // nothing to end
}

TEST(ProgressThread, HandsOverWhatWasThrown) {
  std::atomic<bool> called = false;
  ProgressThread thread(
      [&] {
        called = true;
        throw std::runtime_error("broken");
      },
      {});
  thread.resume();
  while (!called) std::this_thread::yield();
  EXPECT_THROW(thread.pause(), std::runtime_error);
  thread.resume();
  EXPECT_NO_THROW(std::this_thread::yield());
}

}  // namespace
}  // namespace keelson::comm::detail
