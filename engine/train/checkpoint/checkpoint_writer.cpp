#include "engine/train/checkpoint/checkpoint_writer.hpp"

#include <chrono>
#include <utility>

#include "engine/base/background_thread.hpp"
#include "engine/base/trace.hpp"

namespace keelson {

void CheckpointWriter::wait() {
  if (thread_.joinable()) thread_.join();
}

void CheckpointWriter::start(std::shared_ptr<const CheckpointCopy> copy) {
  wait();
  now_ = {.copy = std::move(copy)};
  error_ = nullptr;
  done_ = false;
  thread_ = start_background_thread("checkpoint", [this] { write(); });
}

void CheckpointWriter::write() {
  const TraceSpan span("write checkpoint", "checkpoint");
  const auto begin = std::chrono::steady_clock::now();
  try {
    now_.path = folder_.write(*now_.copy, [this] {
      const std::lock_guard lock(mutex_);
      ++parts_;
      moved_.notify_all();
    });
  } catch (...) {
    error_ = std::current_exception();
  }
  now_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const std::lock_guard lock(mutex_);
  done_ = true;
  moved_.notify_all();
}

bool CheckpointWriter::wait_for(double seconds) {
  std::unique_lock lock(mutex_);
  if (moved_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return done_.load(); })) return true;
  moved_.wait(lock, [this] { return done_ || parts_ != seen_; });
  seen_ = parts_;
  return done_;
}

std::optional<CheckpointWriter::Written> CheckpointWriter::take(bool wait_for_it) {
  if (!now_.copy || (!wait_for_it && (!done_ || error_))) return std::nullopt;
  wait();
  auto written = std::exchange(now_, {});
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return written;
}

}  // namespace keelson
