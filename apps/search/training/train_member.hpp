#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "apps/search/training/train_network.hpp"
#include "engine/data/subset_dataset.hpp"
#include "search/log/population.hpp"

namespace keelson::search {

/// The training data of the members of a population. With ltfb a random part of them is held out from all trainings and
/// dealt to the members as their tournament data; with PopulationTraining::partition the rest is dealt, too.
class MemberData {
 public:
  /// Throws InputError if there are too few samples for so many members. `data` must outlive this object.
  MemberData(const Settings& settings, const Dataset& data);

  const Dataset& training(std::int64_t member) const;    ///< what the member trains on
  const Dataset& tournament(std::int64_t member) const;  ///< what the member judges models by; only with ltfb

 private:
  const Dataset& data_;
  std::vector<std::unique_ptr<const Dataset>> training_, tournament_;  ///< by member; one training set for all
};

/// What a member trains next, as all ranks of its group must know it.
struct MemberTask {
  std::int64_t id = 0;        ///< of the member
  int rung = 0;               ///< to be trained
  Genome genome;              ///< of the member
  Interval interval;          ///< how it begins
  TrainingPart partner = {};  ///< the partner's training, which comes with its model

  static MemberTask of(const Population& population, const Individual& member);
  std::string to_json(const Space& space) const;                         ///< for parse()
  static MemberTask parse(const std::string& json, const Space& space);  ///< what to_json() has written
};

/// Trains a member for an interval. With a partner, both models are evaluated on the member's tournament data first,
/// and the partner's is taken if its loss is less. Errors as NetworkTrainer::train(). Collective over the group.
Result train_member(const NetworkTrainer& trainer, const MemberData& data, const MemberTask& task);

/// Removes the checkpoints of members that no other may begin with; at the end of the search all but those of the
/// `keep` best.
void remove_member_checkpoints(const Population& population, const NetworkTrainer& trainer, int keep);

}  // namespace keelson::search
