#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "engine/train/sample_unit.hpp"

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
  std::vector<double> target_errors;  ///< the metric of each target
  double learning_rate = 0;
  double rate = 0;    ///< units per second of training, all ranks together
  TimeSplit seconds;  ///< of training
  double validation_seconds = 0;
};

/// Something that happened: "start", "resume", "checkpoint", "best", "stop".
struct EventRecord {
  std::string event;
  std::int64_t step = 0;
  std::string text;
};

/// All records of a run.
struct History {
  std::vector<StepRecord> steps;
  std::vector<EpochRecord> epochs;
  std::vector<EventRecord> events;
};

/// The metrics of a run as JSON lines: one object per record, with "type": "step", "epoch" or "event"; numbers that are
/// not finite are null; the rate is "<unit>s_per_second". Each record is handed to the system when written. Throws
/// Error where that fails.
class MetricsFile {
 public:
  /// Starts the file anew, or, with resume_step >= 0, keeps what it holds up to that step (a run that was killed may
  /// have gone further than its last checkpoint) and appends.
  explicit MetricsFile(std::filesystem::path path, std::int64_t resume_step = -1, const SampleUnit& unit = {});
  void write(const StepRecord& r);
  void write(const EpochRecord& r);
  void write(const EventRecord& r);

 private:
  void line(const std::string& text);
  std::filesystem::path path_;
  std::string rate_key_;
  std::ofstream out_;
};

/// Reads it back, whatever the unit; lines that are no records (a torn last one) are left out. A file that is not there
/// holds none.
History read_metrics(const std::filesystem::path& path);

}  // namespace keelson
