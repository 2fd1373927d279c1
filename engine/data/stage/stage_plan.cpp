#include "engine/data/stage/stage_plan.hpp"

#include <algorithm>

#include "engine/base/error.hpp"

namespace keelson {

StagePlan::StagePlan(std::int64_t files, StageMode mode, std::int64_t count, std::uint64_t seed, int places)
    : mode_(mode),
      count_(count),
      seed_(seed),
      places_(places),
      kept_(mode == StageMode::sample ? std::min(files, count * places) : files),
      order_(files, seed, 0) {
  KEELSON_EXPECT(files >= 0 && places > 0);
  KEELSON_EXPECT(mode != StageMode::sample || (count > 0 && count <= files));
}

/// How many of the first `end` positions this place owns.
std::int64_t StagePlan::owned(int place, std::int64_t end) const {
  return end <= place ? 0 : (end - place + places_ - 1) / places_;
}

/// The order in which a place draws from the positions of the others. Its epoch differs from that of `order_`.
EpochOrder StagePlan::draw(int place) const { return {kept_ - owned(place, kept_), seed_, place + 1}; }

std::int64_t StagePlan::drawn(int place) const {
  if (mode_ == StageMode::shard) return 0;
  return (mode_ == StageMode::full ? kept_ : count_) - owned(place, kept_);
}

int StagePlan::owner(std::int64_t file) const {
  const auto position = order_.position_of(file);
  return position < kept_ ? static_cast<int>(position % places_) : -1;
}

bool StagePlan::has(int place, std::int64_t file) const {
  const auto position = order_.position_of(file);
  if (position >= kept_) return false;
  if (position % places_ == place) return true;
  const auto other = position - owned(place, position);  // its number among the positions of the other places
  return draw(place).position_of(other) < drawn(place);
}

std::vector<std::int64_t> StagePlan::files_of(int place) const {
  std::vector<std::int64_t> files;
  for (std::int64_t p = place; p < kept_; p += places_) files.push_back(order_[p]);
  const auto order = draw(place);
  for (std::int64_t i = 0; i < drawn(place); ++i) {
    const auto other = order[i], block = other / (places_ - 1), within = other % (places_ - 1);
    files.push_back(order_[block * places_ + within + (within < place ? 0 : 1)]);
  }
  return files;
}

int StagePlan::lane(std::int64_t file, int lanes) const {
  return static_cast<int>(order_.position_of(file) / places_ % lanes);
}

}  // namespace keelson
