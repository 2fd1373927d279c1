#include "comm/detail/progress_thread.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace keelson::comm::detail {
namespace {

TEST(ProgressThread, WorksOnlyWhileItMay) {
  long calls = 0;  // of both threads, never at the same time
  ProgressThread thread([&] { ++calls; }, {});
  EXPECT_EQ(calls, 0);
  for (int turn = 0; turn < 100; ++turn) {
    thread.lend();
    if (turn % 2 == 0) std::this_thread::yield();
    thread.reclaim();
    const long before = calls;
    std::this_thread::yield();
    EXPECT_EQ(calls, before);
    ++calls;
  }
  thread.reclaim();  // nothing to end
}

TEST(ProgressThread, HandsOverWhatWasThrown) {
  std::atomic<bool> called = false;
  ProgressThread thread(
      [&] {
        called = true;
        throw std::runtime_error("broken");
      },
      {});
  thread.lend();
  while (!called) std::this_thread::yield();
  EXPECT_THROW(thread.reclaim(), std::runtime_error);
  thread.lend();
  EXPECT_NO_THROW(std::this_thread::yield());
}

}  // namespace
}  // namespace keelson::comm::detail
