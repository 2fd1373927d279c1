#include "comm/mpi/progress_thread.hpp"

#include <utility>

#include "engine/base/background_thread.hpp"

namespace keelson::comm::detail {

ProgressThread::ProgressThread(std::function<void()> advance, const std::vector<int>& cpus)
    : advance_(std::move(advance)) {
  may_call_.lock();
  thread_ = start_background_thread("progress", [this] { work(); }, cpus);
}

ProgressThread::~ProgressThread() {
  if (state_.exchange(State::ended) == State::paused) may_call_.unlock();
  state_.notify_one();
  thread_.join();
}

void ProgressThread::resume() {
  may_call_.unlock();
  state_ = State::running;
  state_.notify_one();
}

void ProgressThread::pause() {
  State running = State::running;
  if (!state_.compare_exchange_strong(running, State::paused)) return;
  may_call_.lock();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ProgressThread::work() {
  for (;;) {
    state_.wait(State::paused);
    if (state_ == State::ended) return;
    {
      const std::lock_guard lock(may_call_);
      try {
        if (state_ == State::running && !error_) advance_();
      } catch (...) {
        error_ = std::current_exception();
      }
    }
    std::this_thread::yield();
  }
}

}  // namespace keelson::comm::detail
