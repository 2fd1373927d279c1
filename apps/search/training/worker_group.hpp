#pragma once

#include <functional>
#include <memory>
#include <string>

#include "apps/search/training/train_member.hpp"
#include "apps/search/training/train_network.hpp"
#include "engine/base/communicator.hpp"
#include "search/log/search_log.hpp"
#include "search/run/worker.hpp"

namespace keelson::search {

/// The ranks of a job in groups, each of which is one worker: its first rank reads and writes the log.
class WorkerGroup {
 public:
  /// `on_device`: the same ranks as `world`, with collectives on the device. Throws InputError if the ranks cannot be
  /// divided. Collective.
  WorkerGroup(Communicator& world, Communicator& on_device, int ranks_per_network);

  int count() const { return count_; }                  ///< groups of the job
  Communicator* ranks() const { return ranks_.get(); }  ///< of this rank's group; null: one rank
  bool is_leader() const { return !ranks_ || ranks_->rank() == 0; }

  /// What the workers of this job do.
  struct Work {
    SearchLog& log;
    Population& population;
    const Method& method;
    const NetworkTrainer& trainer;
    Budget budget;
    int first_slot = 0;  ///< of the first group
    int keep = 5;        ///< networks whose checkpoints are kept
    /// Called from time to time with a line that says how far the search is; may be empty.
    std::function<void(const std::string&)> tell = {};
    const MemberData* members = nullptr;  ///< of a population that trains together; null: of other searches
  };
  /// The loop of the worker, on all ranks of the group. On ranks that do not lead the times are 0.
  WorkerTimes work(const Work& work) const;

 private:
  WorkerTimes lead(const Work& work) const;
  void follow(const Work& work) const;
  Result train_together(const Work& work, const Individual& individual) const;

  int count_ = 1, number_ = 0;
  std::unique_ptr<Communicator> ranks_;
};

/// Removes the checkpoints of networks that are trained to the end and are not among the `keep` best. Others may still
/// be promoted.
void remove_checkpoints(const Population& population, const NetworkTrainer& trainer, int keep);

}  // namespace keelson::search
