#include "engine/train/training_ranks.hpp"

namespace keelson {

TrainingRanks::TrainingRanks(Communicator* all, const ProcessGrid::Extents& replica)
    : all_(all), replica_(training_extents(all ? all->size() : 1, replica)) {}

Communicator* TrainingRanks::training() const {
  if (waits()) return nullptr;
  return part_ ? part_.get() : all_;
}

ProcessGrid TrainingRanks::grid() const { return {training_extents(count(), replica_), all_ ? all_->rank() : 0}; }

void TrainingRanks::regroup() {
  release();
  if (waiting() > 0) part_ = all_->split(waits() ? -1 : 0, all_->rank());
}

}  // namespace keelson
