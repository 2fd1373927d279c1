#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace keelson {

/// Where the wall time of some steps went, in seconds, on one rank.
struct TimeSplit {
  double compute = 0;   ///< forward, backward and update, with the exchange that goes on behind them
  double exchange = 0;  ///< waiting for gradients of other ranks
  double data = 0;      ///< waiting for samples
  double copy = 0;      ///< handing samples to the device
  double total() const { return compute + exchange + data + copy; }
  TimeSplit& operator+=(const TimeSplit& o) {
    compute += o.compute;
    exchange += o.exchange;
    data += o.data;
    copy += o.copy;
    return *this;
  }
};

/// One optimizer step.
struct StepRecord {
  std::int64_t step = 0;  ///< steps done, this one included
  double epoch = 0;       ///< position in training: epochs done, with their fraction
  double loss = 0;        ///< mean over the units (SampleUnit) of the global batch
  double learning_rate = 0;
  double rate = 0;    ///< units per second of all ranks together, since the record before
  TimeSplit seconds;  ///< since the record before
};

/// The end of an epoch.
struct EpochRecord {
  std::int64_t epoch = 0;  ///< epochs done
  std::int64_t step = 0;
  double train_loss = 0;
  double validation_loss = std::numeric_limits<double>::quiet_NaN();  ///< NaN without validation
  double metric = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> metric_values;  ///< the metric's parts, e.g. one per target
  double learning_rate = 0;
  double rate = 0;    ///< units per second of training, all ranks together
  TimeSplit seconds;  ///< of training
  double validation_seconds = 0;
  bool best = false;  ///< the validation was better than all before
};

}  // namespace keelson
