#include "comm/detail/progress_thread.hpp"

#include <utility>

#include "engine/base/background_thread.hpp"

namespace keelson::comm::detail {

ProgressThread::ProgressThread(std::function<void()> advance, const std::vector<int>& cpus)
    : advance_(std::move(advance)) {
  turn_.lock();
  thread_ = start_background_thread("progress", [this] { work(); }, cpus);
}

ProgressThread::~ProgressThread() {
  if (state_.exchange(State::ended) == State::idle) turn_.unlock();
  state_.notify_one();
  thread_.join();
}

void ProgressThread::lend() {
  turn_.unlock();
  state_ = State::lent;
  state_.notify_one();
}

void ProgressThread::reclaim() {
  State lent = State::lent;
  if (!state_.compare_exchange_strong(lent, State::idle)) return;
  turn_.lock();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ProgressThread::work() {
  for (;;) {
    state_.wait(State::idle);
    if (state_ == State::ended) return;
    {
      const std::lock_guard lock(turn_);
      try {
        if (state_ == State::lent && !error_) advance_();
      } catch (...) {
        error_ = std::current_exception();
      }
    }
    std::this_thread::yield();
  }
}

}  // namespace keelson::comm::detail
