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

/// What a rank keeps of a training run, so that the run can begin anew with other ranks (apps/common/spares.hpp).
struct Restart {
  using Clock = std::chrono::steady_clock;

  int spares = 0;                              ///< ranks that wait now
  Clock::time_point start = Clock::now();      ///< of the run
  RunFolder folder;                            ///< of the run, when it has begun
  std::optional<FolderLock> lock;              ///< of the folder, on the first rank
  std::string token;                           ///< of the lock; empty: the run has not begun
  std::shared_ptr<const CheckpointCopy> copy;  ///< the latest checkpoint; null: none
  std::optional<Recovery> loss;                ///< after which the run begins anew; the first rank knows all of it
  Clock::time_point regrouped;                 ///< when the ranks that are left had found each other
  std::string hint;                            ///< how to continue the run with another job
  std::string last;                            ///< path of the run's last checkpoint; empty: none

  /// Whether the run has begun, with other ranks: alike on all ranks, which then know the folder and the token of the
  /// first rank. Collective.
  bool begun(Communicator& world);
  /// The checkpoint that the first rank keeps in memory; where it keeps none, since all that trained before were lost,
  /// the last that was written; none: the run has made none. Throws Error where it has, and none is left. Collective.
  std::optional<CheckpointReader> open_checkpoint(Communicator& world) const;
  /// Makes this process the holder of the folder's lock, if it is not. Called by the first rank.
  void take_lock(const RunFolder& of_run);
  /// Writes the checkpoint in memory if its file is missing, because the rank that wrote the file was lost. `keep`: as
  /// in CheckpointFolder. Called by the first rank.
  void complete_checkpoints(int keep) const;
  /// Keeps what is needed of a run that has ended by RanksLost.
  void keep(const Trainer& trainer, const std::string& how_to_continue);

 private:
  std::string newest_written() const;
  CheckpointFolder checkpoints(int keep) const { return {folder.checkpoints(), keep}; }
};

/// When training has begun again with other ranks, notifies other observers of the loss before.
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
