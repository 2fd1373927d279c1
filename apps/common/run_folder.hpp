#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/folder_lock.hpp"
#include "apps/common/report/metrics_file.hpp"
#include "apps/common/report/report.hpp"
#include "apps/common/target_metrics.hpp"
#include "engine/base/communicator.hpp"
#include "engine/train/observer.hpp"
#include "engine/train/trainer.hpp"

namespace keelson::app {

/// A run's folder: checkpoints/, metrics.jsonl, report.html, with --prune-samples samples.csv and, while the run goes
/// on, run.lock.
struct RunFolder {
  std::filesystem::path path;
  std::filesystem::path checkpoints() const { return path / "checkpoints"; }
  std::filesystem::path metrics() const { return path / "metrics.jsonl"; }
  std::filesystem::path report() const { return path / "report.html"; }
  std::filesystem::path samples() const { return path / "samples.csv"; }

  /// Whether a run that is resumed from this checkpoint goes on in this folder: the file lies in the folder. Empty
  /// path: false. Called by one rank.
  bool holds(const std::filesystem::path& checkpoint) const;
  /// Throws InputError if the folder holds a run and `overwrite` is false. A run that failed before its first
  /// checkpoint does not count, since it left nothing that could be lost. `resumed_from`: the checkpoint that --resume
  /// names, for the message; may be empty. Called by one rank.
  void require_free(bool overwrite, const std::filesystem::path& resumed_from) const;
  /// Throws InputError on all ranks, and changes nothing, if the folder cannot be written, is in use by another
  /// run, or holds a run that neither goes on from `resumed_from` nor may be overwritten. Collective.
  void check(Communicator& world, const std::filesystem::path& resumed_from, bool overwrite) const;
  /// Removes the run, or the list of the ensemble's members, that the folder holds, but no other files. Called by one
  /// rank.
  void clear() const;
  /// Makes the folder. If `goes_on` is false, removes the run in it, but not files that were set aside. Called by one
  /// rank.
  void prepare(bool goes_on) const;
};

/// Writes metrics.jsonl, after every epoch and at the end report.html and, at the end, samples.csv, as long as this run
/// holds the folder's lock.
class RunRecorder final : public TrainObserver {
 public:
  /// `report` contains everything but history, targets and plan, which come from the run. `targets`: the metrics of the
  /// validation; null: the report shows no single targets. `sections` makes the report's sections after each
  /// validation; may be empty.
  RunRecorder(RunFolder folder, const FolderLock& lock, std::int64_t every_steps, const Trainer& trainer,
              ReportInput report, const TargetMetrics* targets,
              std::function<std::vector<ReportInput::Section>()> sections = {})
      : folder_(std::move(folder)),
        lock_(lock),
        every_(every_steps),
        trainer_(trainer),
        report_(std::move(report)),
        targets_(targets),
        sections_(std::move(sections)) {}

  void on_start(const RunState& s, const std::filesystem::path& resumed_from) override;
  void on_step(const RunState& s, const StepRecord& r) override;
  void on_epoch(const RunState& s, const EpochRecord& r, const Evaluation* validation) override;
  void on_checkpoint(const RunState& s, const std::filesystem::path& path, bool best) override;
  void on_network_change(const RunState& s, const Graph& graph, const std::string& text) override;
  void on_ranks_lost(const RunState& s, const Recovery& r) override;
  void on_set_aside(const RunState& s, const std::filesystem::path& folder) override;
  void on_take_over(const RunState& s, const EpochRecord* last_epoch) override;
  void on_stop(const RunState& s, StopReason reason) override;

 private:
  template <class Record>
  void write(const Record& record) {
    lock_.require();
    open();
    file_->write(record);
  }
  void open();  ///< the first call cuts metrics.jsonl back and writes start_
  void write_report();

  RunFolder folder_;
  const FolderLock& lock_;
  std::int64_t every_;
  const Trainer& trainer_;
  ReportInput report_;
  const TargetMetrics* targets_;
  std::function<std::vector<ReportInput::Section>()> sections_;
  EventRecord start_;
  std::string topology_;               ///< of the present network
  std::unique_ptr<MetricsFile> file_;  ///< null: a resumed run has made no step yet, and changed nothing
  TimeSplit seconds_;                  ///< since the last record
  double units_ = 0;
  std::vector<double> step_seconds_;   ///< of the present network in this epoch
  double last_step_ = 0;               ///< median seconds of a step of the last epoch
  std::optional<double> step_before_;  ///< the same of the network before, until the next epoch ends
};

/// The targets of an evaluation with these metrics, for a report.
std::vector<ReportInput::Target> report_targets(const TargetMetrics& metrics);

}  // namespace keelson::app
