#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace keelson::comm::detail {

/// A thread that calls MPI while the thread that owns this object does not. The two threads never call MPI at the same
/// time, so MPI_THREAD_SERIALIZED is enough.
class ProgressThread {
 public:
  /// `advance`: called again and again. `cpus`: as in start_background_thread().
  ProgressThread(std::function<void()> advance, const std::vector<int>& cpus);
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;

  /// From now on the thread calls `advance`, and the owner makes no call of MPI.
  void resume();
  /// Waits until the thread has left `advance`. The thread then no longer calls `advance`. Throws the exception of
  /// `advance`, if any. Does nothing if the thread is already paused.
  void pause();

 private:
  enum class State : unsigned char { paused, running, ended };
  void work();

  std::function<void()> advance_;
  std::mutex may_call_;  ///< held by the thread that may call MPI: the owner, except between resume() and pause()
  std::atomic<State> state_{State::paused};
  std::exception_ptr error_;  ///< the exception of `advance`
  std::thread thread_;
};

}  // namespace keelson::comm::detail
