#pragma once

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "apps/common/target_metrics.hpp"
#include "engine/train/trainer.hpp"

namespace keelson::app {

/// Prints the progress of training. On a terminal: one line that is rewritten in place, with rate and remaining time.
/// Elsewhere: a plain line every 15 seconds. Both also get one line per epoch.
class Console final : public TrainObserver {
 public:
  /// `targets`: the metrics in options.evaluation, for the baseline; may be null. `prefix`: in front of each line, if
  /// several runs print at the same time; no line is then rewritten in place.
  Console(std::FILE* out, const TrainerOptions& options, std::int64_t steps_per_epoch,
          const TargetMetrics* targets = nullptr, std::string prefix = "");
  void on_start(const RunState& s, const std::filesystem::path& resumed_from) override;
  void on_step(const RunState& s, const StepRecord& r) override;
  void on_validation_start(const RunState& s) override;
  void on_epoch(const RunState& s, const EpochRecord& r, const Evaluation* validation) override;
  void on_checkpoint(const RunState& s, const std::filesystem::path& path, bool best) override;
  void on_set_aside(const RunState& s, const std::filesystem::path& folder) override;
  void on_network_change(const RunState& s, const Graph& graph, const std::string& text) override;
  void on_ranks_lost(const RunState& s, const Recovery& r) override;
  void on_stop(const RunState& s, StopReason reason) override;

 private:
  using Clock = std::chrono::steady_clock;
  std::string judged(const EpochRecord& r) const;
  std::string line(const RunState& s, const StepRecord& r) const;
  void write(const std::string& text);
  void overwrite(const std::string& text);  ///< terminal only
  void say(const std::string& text);

  std::FILE* out_;
  std::string prefix_;
  bool terminal_;
  std::int64_t epochs_, max_steps_, steps_per_epoch_;
  std::shared_ptr<const Metric> metric_;  ///< may be null
  const TargetMetrics* targets_;
  std::string per_second_;  ///< "samples/s"
  Clock::time_point last_ = Clock::now();
  double rate_ = 0;          ///< units per second, smoothed
  double step_seconds_ = 0;  ///< smoothed
  double validation_seconds_ = 0;
  std::size_t width_ = 0;  ///< length of the line to overwrite
};

/// Whether `out` is shown on a terminal. True only if stderr is a terminal, too: with Open MPI, a rank's stdout is a
/// pseudo-terminal even if mpirun writes to a file, but then the rank's stderr is a pipe.
bool is_terminal(std::FILE* out);

/// "2:05", "1:02:03"
std::string clock_text(double seconds);

}  // namespace keelson::app
