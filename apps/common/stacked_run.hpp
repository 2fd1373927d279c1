#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "apps/common/device_options.hpp"
#include "apps/common/folder_lock.hpp"
#include "apps/common/members.hpp"
#include "apps/common/report/metrics_file.hpp"
#include "apps/common/report/report.hpp"
#include "apps/common/training.hpp"
#include "engine/train/observer.hpp"
#include "engine/train/stack/stacked_training.hpp"

namespace keelson::app {

/// The members of one rank that are trained together (train --members M --stack), each on one thread, from batches that
/// are read once for all of them (StackedTraining). Every member has the folder, the checkpoints, the metrics and the
/// report of an ordinary run. Checkpoints are written between epochs, by a thread beside the training.
class StackedRun {
 public:
  /// `members`: how many will be added. `rank`: of this process in the job; the first one prints what all have in
  /// common.
  StackedRun(std::size_t members, int rank);
  ~StackedRun();
  StackedRun(const StackedRun&) = delete;

  /// Throws InputError for options that members of a stack cannot have.
  static void check(const TrainingOptions& o, const TrainerOptions& t, bool apoptosis, bool grows,
                    const std::string& precision);
  /// The device of all members; the first call opens it.
  const DeviceSession& open(const DeviceOptions& o, Launch& launch);

  /// Adds the member Launch::member. `resumed_from`: its checkpoint; empty: a new run. `report`: all but what the run
  /// tells. The last member trains all of them, on its own data, which are those of all. Throws InputError for a member
  /// with other batches or other data than those before.
  ExitCode add(const TrainingTask& task, const TrainerOptions& t, const RunFolder& folder,
               const std::filesystem::path& resumed_from, ReportInput report, const TrainingOptions& o, Launch& launch);

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry;
  struct Shared;  ///< what all members have in common

  StackedMember stacked(const TrainingTask& task, const TrainerOptions& t, const Member& member) const;
  ExitCode train_all(const Dataset& training, const Dataset* validation, Launch& launch);
  StackedOptions stacked_options(Launch& launch, const Dataset* validation);
  void resume_members(StackedTraining& stack);
  bool goes_on(const StackedProgress& p);
  void finish_epoch(StackedTraining& stack);
  void record_epoch(Entry& e, const StackedRecord& r);
  void print_frame(const Dataset& training, const Dataset* validation) const;
  void print_epoch(const StackedTraining& stack, std::int64_t epoch, double seconds) const;
  void wait_for_checkpoints();
  void end_members(StackedTraining& stack, std::optional<StopReason> cut);

  std::size_t expected_;
  int rank_;
  std::string speaker_;  ///< in front of each line
  std::optional<DeviceSession> session_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::unique_ptr<Shared> shared_;
  std::thread writer_;
  std::exception_ptr write_error_;
  Clock::time_point epoch_start_, last_line_ = Clock::now();
};

}  // namespace keelson::app
