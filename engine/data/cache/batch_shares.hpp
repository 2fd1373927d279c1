#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/data/cache/sample_cache.hpp"

namespace keelson {

/// A sample of a global batch.
struct BatchSample {
  std::int64_t place = 0;   ///< in the global batch, from 0
  std::int64_t sample = 0;  ///< index in the data set
  /// The rank that reads the sample, from its cache, a copy or the files; -1: the rank that computes it, from the
  /// files.
  int holder = -1;
  friend bool operator==(const BatchSample&, const BatchSample&) = default;
};

/// One global batch, of `count` samples, of which rank r of `ranks` computes the r-th `batch` samples, or fewer if the
/// batch is short.
struct GlobalBatch {
  std::int64_t count = 0;  ///< samples of all ranks
  std::int64_t batch = 1;  ///< samples of a rank, at most
  /// The samples of rank `rank`.
  std::int64_t count_of(int rank) const;
};

/// Deals the samples of a global batch to the ranks, each rank as many as GlobalBatch says. A rank gets samples that it
/// keeps, up to its number; then the samples that are left go to the ranks that have room, in the order of their
/// places, and of these to ranks with a copy (CachedSamples::copies) first. So as few samples as possible must be sent
/// from rank to rank: of a random batch of b samples per rank a part of e^-b b^b / b! if all samples are kept. The
/// samples of a rank are in the order of their places.
///
/// `keep_places`: rank r gets the r-th part of the places in any case, as without a cache, and more samples are sent.
///
/// `sample_at(place)` is the index of a sample. The result is the same on all ranks. Result: per rank.
std::vector<std::vector<BatchSample>> deal_samples(const GlobalBatch& global, const CachedSamples& kept,
                                                   bool keep_places,
                                                   const std::function<std::int64_t(std::int64_t)>& sample_at);

}  // namespace keelson
