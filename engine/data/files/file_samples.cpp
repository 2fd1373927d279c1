#include "engine/data/files/file_samples.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"

namespace keelson {

FileSamples::FileSamples(std::int64_t files, Communicator* communicator,
                         const std::function<std::int64_t(std::int64_t)>& count)
    : files_(files), table_(communicator) {
  const std::int64_t ranks = communicator ? communicator->size() : 1, rank = communicator ? communicator->rank() : 0;
  const auto first_of = [&](std::int64_t r) { return files / ranks * r + std::min(r, files % ranks); };
  std::vector<std::int64_t> ends;
  on_each_rank(communicator, [&] {
    std::int64_t end = 0;
    for (std::int64_t i = first_of(rank); i < first_of(rank + 1); ++i) ends.push_back(end += count(i));
  });
  std::vector<std::int64_t> totals(static_cast<std::size_t>(ranks));
  totals[static_cast<std::size_t>(rank)] = ends.empty() ? 0 : ends.back();
  if (communicator) communicator->allreduce(totals.data(), totals.size(), Reduction::sum);
  const std::int64_t before = std::accumulate(totals.begin(), totals.begin() + rank, std::int64_t{0});
  for (auto& end : ends) end += before;
  for (std::int64_t r = 0; r < ranks; ++r)
    table_.append(ends.data(), static_cast<std::size_t>(first_of(r + 1) - first_of(r)) * sizeof(std::int64_t),
                  static_cast<int>(r));
  table_.finish();
}

std::int64_t FileSamples::end_of(std::int64_t file) const {
  std::int64_t end = 0;
  if (file >= 0) std::memcpy(&end, table_.bytes().data() + file * std::int64_t{sizeof end}, sizeof end);
  return end;
}

FileSamples::Location FileSamples::locate(std::int64_t sample) const {
  KEELSON_EXPECT(sample >= 0 && sample < size());
  std::int64_t low = 0, high = files_ - 1;  // binary search for the first file whose end is above `sample`
  while (low < high) {
    const auto middle = low + (high - low) / 2;
    if (end_of(middle) > sample)
      high = middle;
    else
      low = middle + 1;
  }
  return {low, sample - end_of(low - 1)};
}

}  // namespace keelson
