#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/folder_lock.hpp"
#include "apps/common/run_folder.hpp"
#include "engine/base/communicator.hpp"
#include "engine/train/checkpoint/checkpoint.hpp"
#include "engine/train/checkpoint/checkpoint_reader.hpp"
#include "engine/train/observer.hpp"
#include "engine/train/records.hpp"
#include "engine/train/trainer.hpp"

namespace keelson::app {

/// Data of a training run that a rank keeps, so that the run can start again with other ranks (apps/common/spares.hpp).
struct Restart {
  using Clock = std::chrono::steady_clock;

  int spares = 0;                              ///< ranks that wait now
  Clock::time_point start = Clock::now();      ///< start of the run
  RunFolder folder;                            ///< the run's folder, once the run has begun
  std::optional<FolderLock> lock;              ///< lock of the folder, on the first rank
  std::string token;                           ///< token of the lock; empty: the run has not begun
  std::shared_ptr<const CheckpointCopy> copy;  ///< the latest checkpoint; null: none
  std::optional<Recovery> loss;  ///< the loss after which the run starts again; the first rank has all data
  Clock::time_point regrouped;   ///< when the remaining ranks had formed their group
  std::string hint;              ///< how to continue the run with another job
  std::string last;              ///< path of the run's last checkpoint; empty: none

  /// Whether the run has already begun with other ranks; the same answer on all ranks. Afterwards all ranks know the
  /// folder and the token of the first rank. Collective.
  bool begun(Communicator& world);
  /// The checkpoint that the first rank keeps in memory. If the first rank keeps none, since all ranks that trained
  /// before were lost: the last checkpoint that was written. Empty if the run has made no checkpoint. Throws Error if
  /// the run has made checkpoints but none is left. Collective.
  std::optional<CheckpointReader> open_checkpoint(Communicator& world) const;
  /// Makes this process the holder of the folder's lock, if it is not yet. Called by the first rank.
  void take_lock(const RunFolder& of_run);
  /// Removes the folder's lock if the run is over, but the rank that holds the lock was lost. Called by the first rank.
  void remove_lost_lock() const;
  /// Writes the checkpoint in memory if its file is missing, because the rank that should have written it was lost.
  /// `keep`: as in CheckpointFolder. Called by the first rank.
  void complete_checkpoints(int keep) const;
  /// Keeps the data that are needed after a run has ended with RanksLost.
  void keep(const Trainer& trainer, const std::string& how_to_continue);

 private:
  std::string newest_written() const;
  CheckpointFolder checkpoints(int keep) const { return {folder.checkpoints(), keep}; }
};

/// When training has started again, passes the loss that caused the restart to other observers.
class RestartNotifier final : public TrainObserver {
 public:
  explicit RestartNotifier(Restart& restart) : restart_(restart) {}
  /// `others` must outlive this.
  void set_observers(std::vector<TrainObserver*> others) { others_ = std::move(others); }
  void on_start(const RunState& s, const std::filesystem::path& resumed_from) override;

 private:
  Restart& restart_;
  std::vector<TrainObserver*> others_;
};

}  // namespace keelson::app
