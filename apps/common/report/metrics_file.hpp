#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/train/records.hpp"
#include "engine/train/sample_unit.hpp"

namespace keelson::app {

/// How large a network is.
struct NetworkSize {
  std::int64_t parameters = 0;                 ///< elements that are trained
  std::map<std::string, std::int64_t> widths;  ///< of each node with parameters
};

/// A change of the network that is trained.
struct NetworkRecord {
  std::int64_t epoch = 0;  ///< finished epochs
  NetworkSize before, after;
};

/// An event of a run: "start", "resume", "checkpoint", "best", "ranks lost", "network change", "step time",
/// "stop".
struct EventRecord {
  std::string event;
  std::int64_t step = 0;
  std::string text;
  std::optional<NetworkRecord> network = {};  ///< of "network change"; older files have none
};

/// All records of a run.
struct History {
  std::vector<StepRecord> steps;
  std::vector<EpochRecord> epochs;
  std::vector<EventRecord> events;
};

/// The metrics of a run as JSON lines: one object per record, with "type": "step", "epoch" or "event". Numbers that are
/// not finite are null. The key of the rate is "<unit>s_per_second". The file is flushed after each record. Throws
/// Error if writing fails.
class MetricsFile {
 public:
  /// Starts a new file. With resume_step >= 0: keeps the records up to that step (a run that was killed may have gone
  /// further than its last checkpoint) and appends. Lines that are no records, and records whose step or epoch is not
  /// larger than all before, are left out with a warning on stderr. Throws InputError if `path` is no regular file.
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

/// Reads a metrics file, with any unit. Lines that are no records (e.g. an incomplete last line) are left out. If the
/// file does not exist, the result is empty. Throws InputError if `path` is no regular file.
History read_metrics(const std::filesystem::path& path);

}  // namespace keelson::app
