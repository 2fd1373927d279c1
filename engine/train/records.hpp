#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace keelson {

/// Where the wall time of some steps went, in seconds, on one rank.
struct TimeSplit {
  double compute = 0;   ///< forward, backward and update, with the exchange that runs at the same time
  double exchange = 0;  ///< waiting for what other ranks send: gradients, sums, votes
  double data = 0;      ///< waiting for samples
  double copy = 0;      ///< handing samples to the device
  /// Sum of all parts.
  double total() const { return compute + exchange + data + copy; }
  /// Adds the times of more steps.
  TimeSplit& operator+=(const TimeSplit& o) {
    compute += o.compute;
    exchange += o.exchange;
    data += o.data;
    copy += o.copy;
    return *this;
  }
};

/// Results of one optimizer step.
struct StepRecord {
  std::int64_t step = 0;     ///< steps done, this one included
  double epoch = 0;          ///< position in training: epochs done, with their fraction
  double loss = 0;           ///< mean over the units (SampleUnit) of the global batch
  double learning_rate = 0;  ///< of this step
  double rate = 0;           ///< units per second of all ranks together, since the previous record
  TimeSplit seconds;         ///< of this rank, since the previous record
};

/// Results of one epoch.
struct EpochRecord {
  std::int64_t epoch = 0;  ///< epochs done
  std::int64_t step = 0;   ///< optimizer steps done
  double train_loss = 0;   ///< mean over the units (SampleUnit) of the epoch's training samples
  double validation_loss = std::numeric_limits<double>::quiet_NaN();  ///< NaN without validation
  double metric = std::numeric_limits<double>::quiet_NaN();           ///< Evaluation::metric; NaN without validation
  std::vector<double> metric_values;                                  ///< Evaluation::metric_values
  double learning_rate = 0;                                           ///< of the last step
  double rate = 0;                ///< units per second of training, all ranks together
  TimeSplit seconds;              ///< of this rank's training
  double validation_seconds = 0;  ///< wall time; 0 without validation
  bool best = false;              ///< whether the validation was better than all before
};

}  // namespace keelson
