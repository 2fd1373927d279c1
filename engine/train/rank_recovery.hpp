#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/graph/parameters.hpp"
#include "engine/train/checkpoint/run_checkpoints.hpp"
#include "engine/train/records.hpp"
#include "engine/train/training_ranks.hpp"

namespace keelson {

/// How training goes on when ranks are lost. Between two agreements the ranks do one thing together that can be done
/// again, since it changes neither parameters nor state. So at a loss all ranks that are left are in the same thing, or
/// wait for the agreement at its end.
class RankRecovery {
 public:
  /// `max_failures`, `restart`: as TrainerOptions::max_failures and restart_on_loss. `ranks` and `checkpoints` must
  /// outlive this.
  RankRecovery(const TrainingRanks& ranks, int max_failures, bool restart, RunCheckpoints& checkpoints);

  /// What ranks do together, and can do again.
  struct Work {
    std::string name;           ///< "a step"
    std::function<void()> run;  ///< on all ranks; may communicate
    /// If ranks wait, when all ranks agree that `run` has ended: tells them what the others have found. May be
    /// empty.
    std::function<void()> share = {};
  };

  /// What depends on the group.
  struct Group {
    std::function<void()> release;  ///< destroys it, before the lost ranks are left out; may be called twice
    std::function<void()> rebuild;  ///< makes it again, for the ranks that are left. Collective
  };

  /// Whether the ranks that are left can go on after a loss.
  bool survives() const { return ranks_.all() && ranks_.all()->survives_losses(); }
  /// Does `work` until all ranks that are left agree that it has ended. After a loss, leaves out the ranks that were
  /// lost, makes `state` that of the ranks that are left, and returns what has happened. Throws RanksLost if too
  /// many ranks are lost, and with `restart` at any loss. Only for survives(). Collective.
  std::optional<Recovery> retry_until_agreed(const Work& work, RunState& state, const Group& group);
  /// Throws Error on all ranks if parameters or moments (`moments` of each parameter) have other bits than on rank 0.
  /// Can be done again. Collective.
  void compare_parameters(const Parameters& parameters, std::size_t moments) const;

  const std::vector<Recovery::Lost>& lost() const { return lost_; }  ///< all so far
  const std::optional<Recovery>& loss() const { return loss_; }      ///< after which a `restart` was thrown

 private:
  void recover(Recovery& recovery, RunState& state, const Group& group);
  void leave_out(const LostRanks& lost, Recovery& recovery, RunState& state);

  bool is_done(const Work& work) const;

  const TrainingRanks& ranks_;
  int max_failures_;
  bool restart_;
  RunCheckpoints& checkpoints_;
  std::vector<Recovery::Lost> lost_;
  std::optional<Recovery> loss_;
};

}  // namespace keelson
