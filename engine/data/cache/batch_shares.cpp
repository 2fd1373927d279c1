#include "engine/data/cache/batch_shares.hpp"

#include <algorithm>
#include <span>

namespace keelson {

std::int64_t GlobalBatch::count_of(int rank) const { return std::clamp<std::int64_t>(count - rank * batch, 0, batch); }

std::vector<std::vector<BatchSample>> deal_samples(const GlobalBatch& global, const CachedSamples& kept,
                                                   bool keep_places,
                                                   const std::function<std::int64_t(std::int64_t)>& sample_at) {
  std::vector<std::vector<BatchSample>> shares(static_cast<std::size_t>(kept.ranks));
  const auto has_room = [&](int rank) {
    return rank >= 0 && std::ssize(shares[static_cast<std::size_t>(rank)]) < global.count_of(rank);
  };
  const auto give = [&](int rank, BatchSample s) {
    if (kept.copies && kept.copies->has(rank, s.sample)) s.holder = rank;
    shares[static_cast<std::size_t>(rank)].push_back(s);
  };
  std::vector<BatchSample> rest;
  for (std::int64_t place = 0; place < global.count; ++place) {
    const std::int64_t sample = sample_at(place);
    const BatchSample s{place, sample, kept.holder(sample)};
    if (keep_places)
      give(static_cast<int>(place / global.batch), s);
    else if (has_room(s.holder))
      give(s.holder, s);
    else
      rest.push_back(s);
  }
  std::vector<BatchSample> far;
  for (const BatchSample& s : rest) {
    const auto near = kept.copies ? kept.copies->near(s.sample) : std::span<const int>();
    const auto rank = std::ranges::find_if(near, has_room);
    if (rank == near.end())
      far.push_back(s);
    else
      give(*rank, s);
  }
  int rank = 0;
  for (const BatchSample& s : far) {
    while (!has_room(rank)) ++rank;
    give(rank, s);
  }
  for (auto& share : shares) std::ranges::sort(share, {}, &BatchSample::place);
  return shares;
}

}  // namespace keelson
