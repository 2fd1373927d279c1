#pragma once

#include <memory>

#include "engine/base/communicator.hpp"
#include "engine/train/training_grid.hpp"

namespace keelson {

/// The ranks of a training, in replicas of several ranks (TrainerOptions::replica). At first all ranks train. After a
/// loss, the ranks that are left make up whole replicas in their order, and the last ranks, which are too few for a
/// replica, wait. A rank that waits has no samples and no executor. It makes all calls of the trainer, so that it
/// agrees with the others, and trains again when a later loss needs it.
class TrainingRanks {
 public:
  /// All ranks train. `all` null: this rank alone. Throws as training_extents().
  TrainingRanks(Communicator* all, const ProcessGrid::Extents& replica);

  Communicator* all() const { return all_; }  ///< those that wait, too; null: this rank alone
  /// The ranks that train; null: this rank alone, or this rank waits.
  Communicator* training() const;
  int size() const { return all_ ? all_->size() : 1; }            ///< of all()
  int per_replica() const { return ranks_of(replica_); }          ///< ranks of a replica
  int replicas() const { return size() / per_replica(); }         ///< that train; 0: too few ranks are left
  int count() const { return replicas() * per_replica(); }        ///< of ranks that train
  int waiting() const { return size() - count(); }                ///< number of ranks that wait
  bool waits() const { return all_ && all_->rank() >= count(); }  ///< this rank
  /// As training_grid() of the ranks that train. For a rank that trains.
  ProcessGrid grid() const;

  /// Before FaultTolerance::shrink() of all(): destroys the group of the ranks that train. May be called twice.
  void release() { part_.reset(); }
  /// Afterwards: makes the group again. Collective.
  void regroup();

 private:
  Communicator* all_;
  ProcessGrid::Extents replica_;
  std::unique_ptr<Communicator> part_;  ///< the ranks that train, if others wait
};

}  // namespace keelson
