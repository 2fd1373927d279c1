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

/// What the user says about a log for MLPerf HPC; nothing of it is stored in checkpoints.
struct MlperfOptions {
  std::string file;  ///< empty: no log
  std::string organization = "unspecified", platform, division = "closed", status = "onprem";
  bool cache_cleared = false;
};

/// Declares --mlperf-log and its companions on a train verb.
void declare(MlperfOptions& o, Verb& verb);

/// The benchmark that a run is one of.
struct MlperfBenchmark {
  std::string name;    ///< "cosmoflow"
  std::string metric;  ///< key of the validation metric: "eval_error"
  /// Hyper-parameters by the keys that the rules ask for.
  std::vector<std::pair<std::string, nlohmann::ordered_json>> settings;
  std::string not_closed;  ///< why the closed division cannot have this run; empty: it can
};

/// Throws InputError where the run is none of the division that it is to be submitted in.
void check(const MlperfOptions& o, const MlperfBenchmark& benchmark);

/// The number that people write for this one: 1e-6 for 1e-6f, which as a double has other digits.
double as_written(float value);

/// Milliseconds since 1970 of a time of the steady clock, as all records of this process have them: the wall clock is
/// read once and the steady clock from then on, so a later time never has a smaller number.
std::int64_t mlperf_milliseconds(std::chrono::steady_clock::time_point t);

/// The lines of a log, whose times never go back: not where the system's clock is set, and not where a process goes on
/// with the log of another process whose clock was ahead. Throws Error where the file cannot be written.
class MlperfLines {
 public:
  /// What a line is about.
  enum class Event : std::uint8_t { interval_start, interval_end, point_in_time };

  MlperfLines(const std::string& file, bool anew);  ///< `anew` false: appends to what is there
  /// Each line is handed to the system when written.
  void write(Event event, const std::string& key, const nlohmann::ordered_json& value = nullptr,
             const nlohmann::ordered_json& metadata = nlohmann::ordered_json::object(),
             std::chrono::steady_clock::time_point when = std::chrono::steady_clock::now());

 private:
  std::int64_t latest_;  ///< milliseconds, of all lines so far
  std::ofstream out_;
};

/// The log of a run as the rules of MLPerf HPC want it: a line ":::MLLOG {...}" for each event, which MLCommons'
/// compliance checker reads (mlcommons/logging, rule set hpc_3.0.0). On the first rank.
///
/// The timed part, from run_start to run_stop, begins before the program opens any data, as the rules ask, and holds
/// the compilation of the network, which the rules would let it leave out. Checkpoints are part of it.
class MlperfLog : public TrainObserver {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Throws InputError where there is no such folder, or another log that must not be overwritten, or what is no
  /// regular file.
  static void check_place(const MlperfOptions& o, bool overwrite);
  /// Begins the file: when the program began and when the run did, who submits what, and how the network is trained.
  static void begin(const MlperfOptions& o, const MlperfBenchmark& benchmark, const Job& job, Time init, Time run,
                    std::int64_t train_samples, std::int64_t eval_samples);

  /// Goes on with the file, on this rank. `metric`: MlperfBenchmark::metric.
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
