#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/train/checkpoint/checkpoint_writer.hpp"
#include "engine/train/observers.hpp"

namespace keelson {

/// Where and when a training writes checkpoints.
struct CheckpointOptions {
  /// Empty: no checkpoints are written. Checkpoints of other runs that the folder holds are set aside before the first
  /// one is written (CheckpointFolder::set_aside).
  std::filesystem::path folder;
  std::function<void()> before_writing;  ///< called on rank 0; may throw to prevent the checkpoint or the moving
  int keep = 2;                          ///< number of the latest checkpoints to keep, besides best.h5
  /// A checkpoint is written every so many epochs, every so many steps (0: never), and at the end.
  std::int64_t epochs = 1, steps = 0;
};

/// The checkpoints of one run: when they are due, the copy in memory, the thread of rank 0 that writes, and what
/// happens to checkpoints of other runs in the folder. Exists on all ranks; only rank 0 touches the file system.
class RunCheckpoints {
 public:
  /// `ranks` null: this rank alone. All references must outlive this.
  RunCheckpoints(const CheckpointOptions& options, Communicator* ranks, const Observers& observers);

  bool wanted() const { return !options_.folder.empty(); }  ///< whether checkpoints are written at all
  /// Whether the options want a checkpoint after the epoch that has just ended. `best`: its validation was the best.
  bool due_after_epoch(const RunState& state, bool best) const;
  bool due_after_step(const RunState& state) const;  ///< whether the options want a checkpoint after this step
  /// Whether the latest checkpoint, or the one that the run was resumed from, is of this state.
  bool is_saved(const RunState& state) const { return saved_step_ == state.step; }
  void mark_saved(const RunState& state) { saved_step_ = state.step; }  ///< is_saved() is true from here on
  void mark_changed() { saved_step_ = -1; }  ///< the state has changed without a step: is_saved() is false

  /// The run goes on from this checkpoint, of this state.
  void resume(const std::filesystem::path& checkpoint, const RunState& state);
  /// The checkpoint that the run was resumed from; empty: a new run.
  const std::filesystem::path& resumed_from() const { return resumed_from_; }
  /// Before the first step or end of an epoch after resume(): moves checkpoints of later steps out of the way. Throws
  /// Error if that fails.
  void set_aside_later_ones(const RunState& state);

  /// Makes the copy in memory that start_writing() writes: on rank 0 and, with `on_every_rank`, on the others. Can be
  /// done again. Throws Error on all ranks for a value that is not finite. Collective.
  void copy(const RunState& state, const Parameters& parameters, const std::vector<std::string>& moments, bool best,
            bool on_every_rank);
  /// Lets rank 0 begin to write the copy. `keep_copy`: last_copy() stays.
  void start_writing(const RunState& state, bool keep_copy);
  /// For a rank that has become rank 0: writes the copy, if there is one, since the rank 0 of before may not have
  /// written it to the end.
  void take_over();
  /// Returns when rank 0 has written its checkpoint. Rank 0 tells the others again and again that the writing goes on,
  /// so that their watchdogs wait; while the disk takes nothing, rank 0 is silent. Collective.
  void wait();
  /// wait(), and notifies the observers. Throws Error on all ranks if writing has failed. Collective.
  void finish();
  void notify_if_written();  ///< notifies the observers of a checkpoint that has been written meanwhile
  bool failed() const { return writer_.failed(); }  ///< whether rank 0 could not write; known on rank 0

  /// The contents of the latest checkpoint, on every rank if ranks may be lost; null: there is none.
  const std::shared_ptr<const CheckpointCopy>& last_copy() const { return copy_; }
  /// The latest checkpoint that is written, is being written, or was resumed from; empty: none.
  const std::filesystem::path& last() const { return last_; }
  std::string describe_last() const;  ///< "The last checkpoint is PATH", "No checkpoint was written"
  double longest_seconds() const { return longest_seconds_; }  ///< that writing one has taken

 private:
  void claim_folder(const RunState& state);
  void notify(const std::optional<CheckpointWriter::Written>& written);
  bool is_rank0() const { return !ranks_ || ranks_->rank() == 0; }

  const CheckpointOptions& options_;
  Communicator* ranks_;
  const Observers& observers_;
  CheckpointWriter writer_;  ///< at work on rank 0
  std::shared_ptr<const CheckpointCopy> copy_;
  std::filesystem::path resumed_from_, last_;
  std::int64_t saved_step_ = -1;
  bool owns_folder_ = false;  ///< other runs' checkpoints are set aside
  double longest_seconds_ = 0;
};

}  // namespace keelson
