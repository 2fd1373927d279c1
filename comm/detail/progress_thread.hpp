#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace keelson::comm::detail {

/// A thread that calls MPI while the thread that owns it does not. The two never call MPI at the same time, so that
/// MPI_THREAD_SERIALIZED is enough.
class ProgressThread {
 public:
  /// `advance`: called over and over. `cpus`: as in start_background_thread().
  ProgressThread(std::function<void()> advance, const std::vector<int>& cpus);
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;

  /// From now on the thread calls `advance`, and the owner makes no call of MPI.
  void lend();
  /// Ends this, after the call of `advance` that is under way. Throws what a call of `advance` has thrown. Does nothing
  /// if lend() was not called.
  void reclaim();

 private:
  enum class State : unsigned char { idle, lent, ended };
  void work();

  std::function<void()> advance_;
  std::mutex turn_;  ///< held by who may call MPI: by the owner but between lend() and reclaim()
  std::atomic<State> state_{State::idle};
  std::exception_ptr error_;  ///< of `advance`
  std::thread thread_;
};

}  // namespace keelson::comm::detail
