#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/train/records.hpp"
#include "engine/train/sample_unit.hpp"

namespace keelson::app {

/// Something that happened: "start", "resume", "checkpoint", "best", "ranks lost", "stop".
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
  /// have gone further than its last checkpoint) and appends. Lines that are no records, and records of steps or epochs
  /// that do not come after all others, are left out with a warning on stderr. Throws InputError for what is no regular
  /// file.
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
/// holds none. Throws InputError for what is no regular file.
History read_metrics(const std::filesystem::path& path);

}  // namespace keelson::app
