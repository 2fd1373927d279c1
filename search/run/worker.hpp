#pragma once

#include <functional>
#include <string>

#include "engine/base/error.hpp"
#include "search/log/population.hpp"
#include "search/log/search_log.hpp"
#include "search/method/method.hpp"
#include "search/run/job.hpp"

namespace keelson::search {

/// A training that another trial would not make better: the loss is not finite.
class Diverged : public Error {
 public:
  using Error::Error;
};

/// The training was interrupted and has no result; the search ends here.
class Interrupted : public Error {
 public:
  using Error::Error;
};

/// What the loop of a worker needs.
struct WorkerTask {
  SearchLog& log;          ///< of the search
  Population& population;  ///< of the lines that were read from the log
  const Method& method;    ///< that makes new networks
  int slot = 0;            ///< number of the worker; no two workers that run at the same time have the same
  Budget budget;           ///< when to end
  /// Trains a network from the end of the rung before (rung 0: from its initial values) to the end of this rung. Throws
  /// Diverged, Interrupted, or OutOfMemory, after which the network is tried once more. Another Error
  /// ends the worker; the network is left to other workers, and tried once more. A full disk is no fault of the
  /// network: it is trained when the search goes on, however often that fails.
  std::function<Result(const Individual&, int rung)> train;
  std::function<bool()> interrupted;  ///< true: no further training begins; may be empty
  /// Called with the population after each line of this worker; may be empty.
  std::function<void(const Population&)> tell;
  double seconds_between_looks = 0.2;  ///< while the worker waits for others, at first
};

/// How much of its time a worker has trained.
struct WorkerTimes {
  double trained = 0, all = 0;  ///< seconds
  std::int64_t trainings = 0;   ///< that ended with a result
};

/// The loop of a worker: chooses a training, claims it, trains, appends the result; until the budget is used up or the
/// search is interrupted. Any number of workers do the same on one log. Throws what ends the worker.
WorkerTimes work(const WorkerTask& task);

double seconds_since_1970();  ///< the time now

}  // namespace keelson::search
