#include "engine/data/subset_dataset.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/data/epoch_order.hpp"

namespace keelson {

SubsetDataset::SubsetDataset(const Dataset& whole, std::vector<std::int64_t> indices)
    : whole_(whole), indices_(std::move(indices)) {
  KEELSON_EXPECT(std::ranges::all_of(indices_, [&](std::int64_t i) { return i >= 0 && i < whole.size(); }));
}

std::string SubsetDataset::describe() const { return fmt::format("{} of {}", size(), whole_.describe()); }

std::uint64_t SubsetDataset::digest() const {
  Digest digest;
  return digest.add(whole_.digest()).add(indices_).value();
}

Split split_at_random(std::int64_t samples, double fraction, std::uint64_t seed) {
  const EpochOrder order(samples, seed, 0);
  const auto size = static_cast<std::int64_t>(std::llround(fraction * static_cast<double>(samples)));
  Split split;
  for (std::int64_t i = 0; i < samples; ++i) (i < size ? split.part : split.rest).push_back(order[i]);
  std::sort(split.part.begin(), split.part.end());
  std::sort(split.rest.begin(), split.rest.end());
  return split;
}

}  // namespace keelson
