#include "engine/data/cache/batch_shares.hpp"

#include <algorithm>

namespace keelson {

std::int64_t GlobalBatch::count_of(int rank) const { return std::clamp<std::int64_t>(count - rank * batch, 0, batch); }

std::vector<std::vector<BatchSample>> deal_samples(const GlobalBatch& global, const CachedSamples& kept,
                                                   bool keep_places,
                                                   const std::function<std::int64_t(std::int64_t)>& sample_at) {
  std::vector<std::vector<BatchSample>> shares(static_cast<std::size_t>(kept.ranks));
  const auto has_room = [&](int rank) {
    return std::ssize(shares[static_cast<std::size_t>(rank)]) < global.count_of(rank);
  };
  std::vector<BatchSample> rest;
  for (std::int64_t place = 0; place < global.count; ++place) {
    const std::int64_t sample = sample_at(place);
    const BatchSample s{place, sample, kept.holder(sample)};
    if (keep_places)
      shares[static_cast<std::size_t>(place / global.batch)].push_back(s);
    else if (s.holder >= 0 && has_room(s.holder))
      shares[static_cast<std::size_t>(s.holder)].push_back(s);
    else
      rest.push_back(s);
  }
  int rank = 0;
  for (const BatchSample& s : rest) {
    while (!has_room(rank)) ++rank;
    shares[static_cast<std::size_t>(rank)].push_back(s);
  }
  for (auto& share : shares) std::ranges::sort(share, {}, &BatchSample::place);
  return shares;
}

}  // namespace keelson
