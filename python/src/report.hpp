#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "apps/common/run_folder.hpp"

namespace keelson::python {

/// Writes report.html and metrics.jsonl into a folder, as the programs do: an observer of the first rank.
class Report final : public TrainObserver {
 public:
  /// Makes the folder, but touches no other file before the first step. `input`: what the report shows besides the run.
  /// The trainer must outlive this. Throws InputError for a folder that cannot be made, or in which another process
  /// writes.
  Report(const std::filesystem::path& folder, const Trainer& trainer, app::ReportInput input);

  /// Takes the folder's lock, if this has not been done. Another trainer of this process loses the folder to this one,
  /// since a notebook's cell that runs again makes its trainer anew; if another process writes there, throws
  /// InputError.
  void on_start(const RunState& s, const std::filesystem::path& resumed_from) override;
  void on_step(const RunState& s, const StepRecord& r) override;
  void on_epoch(const RunState& s, const EpochRecord& r, const Evaluation* validation) override;
  void on_checkpoint(const RunState& s, const std::filesystem::path& path, bool best) override;
  void on_network_change(const RunState& s, const Graph& graph, const std::string& text) override;
  void on_ranks_lost(const RunState& s, const Recovery& r) override;
  void on_set_aside(const RunState& s, const std::filesystem::path& folder) override;
  void on_stop(const RunState& s, StopReason reason) override;

 private:
  /// Whether this trainer still has the folder. Recorders of trainers that have lost it write nothing.
  bool holds() const;

  app::RunFolder folder_;
  const Trainer& trainer_;
  app::ReportInput input_;
  std::filesystem::path resumed_from_;
  std::int64_t last_step_ = 0;
  std::shared_ptr<app::FolderLock> lock_;
  std::optional<app::RunRecorder> recorder_;
};

/// What the report shows besides the run. `judge`: the first metric; null: the loss judges.
app::ReportInput report_input(const Trainer& trainer, const Graph& graph, const TrainerOptions& options,
                              const Dataset& training, const std::string& devices);

}  // namespace keelson::python
