#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/app.hpp"
#include "engine/train/observer.hpp"

namespace keelson::app {

/// The user's options for a log of MLPerf HPC. Not stored in checkpoints.
struct MlperfOptions {
  std::string file;  ///< empty: no log
  std::string organization = "unspecified", platform, division = "closed", status = "onprem";
  bool cache_cleared = false;
};

/// Declares --mlperf-log and the other --mlperf options on a train subcommand.
void declare(MlperfOptions& o, Subcommand& subcommand);

/// The MLPerf HPC benchmark to which a run belongs.
struct MlperfBenchmark {
  std::string name;    ///< "cosmoflow"
  std::string metric;  ///< key of the validation metric: "eval_error"
  /// Hyper-parameters by the keys that the rules ask for.
  std::vector<std::pair<std::string, nlohmann::ordered_json>> settings;
  std::string not_closed;  ///< why this run is not valid in the closed division; empty: it is valid
};

/// Throws InputError if the run does not follow the rules of the division that the user names.
void check(const MlperfOptions& o, const MlperfBenchmark& benchmark);

/// The double with the shortest decimal form of `value`: 1e-6 for 1e-6f, which as a double has other digits.
double as_written(float value);

/// Converts a time of the steady clock to milliseconds since 1970. The wall clock is read only once per process, so a
/// later time never has a smaller number.
std::int64_t mlperf_milliseconds(std::chrono::steady_clock::time_point t);

/// The lines of a log. Their times never go back, even if the system's clock is set, or if a process appends to the log
/// of another process whose clock was ahead. Throws Error if the file cannot be written.
class MlperfLines {
 public:
  /// The kind of a line.
  enum class Event : std::uint8_t { interval_start, interval_end, point_in_time };

  MlperfLines(const std::string& file, bool anew);  ///< `anew` false: appends to the file
  /// Flushes the file after each line.
  void write(Event event, const std::string& key, const nlohmann::ordered_json& value = nullptr,
             const nlohmann::ordered_json& metadata = nlohmann::ordered_json::object(),
             std::chrono::steady_clock::time_point when = std::chrono::steady_clock::now());

 private:
  std::int64_t latest_;  ///< milliseconds, the latest time of all lines so far
  std::ofstream out_;
};

/// The log of a run in the format of MLPerf HPC's rules: a line ":::MLLOG {...}" for each event. MLCommons' compliance
/// checker reads it (mlcommons/logging, rule set hpc_3.0.0). Only the first rank has one.
///
/// The timed part, from run_start to run_stop, begins before the program opens any data, as the rules require. It
/// includes the compilation of the network, which the rules allow to leave out, and the checkpoints.
class MlperfLog : public TrainObserver {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Throws InputError if the folder does not exist, if the file exists and may not be overwritten, or if it is no
  /// regular file.
  static void check_place(const MlperfOptions& o, bool overwrite);
  /// Begins the file: writes when the program and the run began, who submits what, and how the network is trained.
  static void begin(const MlperfOptions& o, const MlperfBenchmark& benchmark, const Launch& launch, Time init, Time run,
                    std::int64_t train_samples, std::int64_t eval_samples);

  /// Appends to the file, on this rank. `metric`: MlperfBenchmark::metric.
  MlperfLog(const MlperfOptions& o, std::string metric);

  void on_epoch_start(const RunState& s) override;
  void on_validation_start(const RunState& s) override;
  void on_epoch(const RunState&, const EpochRecord& r, const Evaluation* validation) override;
  void on_stop(const RunState& s, StopReason reason) override;

 private:
  MlperfLines lines_;
  std::string metric_;
};

}  // namespace keelson::app
