#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace keelson::comm::detail {

/// A time limit, from the constructor to the destructor, for calls of MPI that wait for other ranks and that the
/// watchdog does not watch. If they take longer, the job ends with exit code 1 and a message. Time in which a batch
/// system had suspended the job does not count.
class CallLimit {
 public:
  /// `what`: the calls, "the start of MPI". `seconds`: 0: no limit. `advice`: ends the message.
  CallLimit(std::string what, double seconds, std::string advice);
  ~CallLimit();
  CallLimit(const CallLimit&) = delete;

 private:
  void watch();

  std::string what_, advice_;
  double seconds_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;  ///< none without a limit
};

/// The advice if the limit is WatchdogOptions::abort_seconds.
inline constexpr const char* watchdog_advice = "The limit is KEELSON_WATCHDOG_ABORT=SECONDS; 0: none";

/// The limit for the start of MPI: KEELSON_START_LIMIT seconds (300). Throws InputError if the variable is not a number
/// of seconds.
class StartLimit : public CallLimit {
 public:
  StartLimit();
};

}  // namespace keelson::comm::detail
