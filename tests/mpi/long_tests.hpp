#pragma once

#include <execinfo.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>

namespace keelson::testing {

/// Says which test, and where in it, when a test runs for longer than it should. Without this, a job that hangs ends by
/// ctest's time limit and does not say where.
class LongTests : public ::testing::EmptyTestEventListener {
 public:
  explicit LongTests(int rank, std::chrono::seconds limit = std::chrono::seconds(240))
      : rank_(rank), limit_(limit), main_thread_(::pthread_self()) {
    void* frame = nullptr;
    ::backtrace(&frame, 1);  // the first call allocates memory, which a signal handler must not do
    std::signal(SIGUSR2, print_stack);
    thread_ = std::thread([this] { watch(); });
  }
  ~LongTests() override {
    say("");
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void OnTestStart(const ::testing::TestInfo& test) override {
    say(std::string(test.test_suite_name()) + "." + test.name());
  }
  void OnTestEnd(const ::testing::TestInfo&) override { say(""); }
  void say(const std::string& test) {
    const std::lock_guard lock(mutex_);
    test_ = test;
    ++number_;
    changed_.notify_all();
  }

  void watch() {
    std::unique_lock lock(mutex_);
    while (!ended_) {
      const int number = number_;
      const auto next = [&] { return ended_ || number_ != number; };
      if (changed_.wait_for(lock, limit_, next) || test_.empty()) continue;
      std::cerr << "rank " << rank_ << ": " << test_ << " has been running for " << limit_.count()
                << " s, here:" << std::endl;
      ::pthread_kill(main_thread_, SIGUSR2);
      changed_.wait(lock, next);
    }
  }
  static void print_stack(int) {
    void* frames[64];
    ::backtrace_symbols_fd(frames, ::backtrace(frames, 64), STDERR_FILENO);
  }

  int rank_;
  std::chrono::seconds limit_;
  ::pthread_t main_thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string test_;
  int number_ = 0;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace keelson::testing
