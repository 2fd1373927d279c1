#include "engine/data/cache/copied_samples.hpp"

#include <algorithm>
#include <string>

#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"

namespace keelson {
namespace {

/// The number of each rank.
std::vector<std::int64_t> gather(std::int64_t mine, Communicator& ranks) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(ranks.size()));
  all[static_cast<std::size_t>(ranks.rank())] = mine;
  ranks.allreduce(all.data(), all.size(), Reduction::sum);
  return all;
}

/// The place of a number in a sorted list; -1: it is not there.
std::int64_t place_in(const std::vector<std::int64_t>& list, std::int64_t number) {
  const auto at = std::ranges::lower_bound(list, number);
  return at != list.end() && *at == number ? at - list.begin() : -1;
}

}  // namespace

CopiedSamples::CopiedSamples(const Dataset& data, std::shared_ptr<const FileCopies> copies, std::int64_t room,
                             Communicator& ranks)
    : data_(data), copies_(std::move(copies)) {
  for (const std::int64_t place : gather(copies_->place, ranks)) place_of_.push_back(static_cast<int>(place));
  ranks_of_.resize(static_cast<std::size_t>(std::ranges::max(place_of_)) + 1);
  for (int r = 0; r < ranks.size(); ++r)
    ranks_of_[static_cast<std::size_t>(place_of_[static_cast<std::size_t>(r)])].push_back(r);
  const std::int64_t samples = data.size();
  std::int64_t end = samples;
  for (std::int64_t s = 0; room > 0 && s < samples && end == samples; ++s) {
    if (!near(s).empty() || s % ranks.size() != ranks.rank()) continue;
    if (std::ssize(without_copy_) == room)
      end = s;
    else
      without_copy_.push_back(s);
  }
  if (room == 0) end = 0;
  for (std::int64_t s = 0; s < samples && kept() < room; ++s) {
    const auto candidates = near(s);
    if (!candidates.empty() && holder(s) == ranks.rank()) with_copy_.push_back(s);
  }
  end_ = gather(end, ranks);
}

/// The place that has read the file of the sample; -1: no place with a rank.
int CopiedSamples::owner(std::int64_t sample) const {
  const int place = copies_->plan.owner(data_.file_number_of(sample));
  return place < std::ssize(ranks_of_) ? place : -1;
}

std::span<const int> CopiedSamples::near(std::int64_t sample) const {
  const int place = owner(sample);
  return place < 0 ? std::span<const int>() : std::span<const int>(ranks_of_[static_cast<std::size_t>(place)]);
}

int CopiedSamples::holder(std::int64_t sample) const {
  if (const auto ranks = near(sample); !ranks.empty()) return ranks[static_cast<std::size_t>(sample) % ranks.size()];
  const auto rank = static_cast<std::size_t>(sample) % place_of_.size();
  return sample < end_[rank] ? static_cast<int>(rank) : -1;
}

bool CopiedSamples::has(int rank, std::int64_t sample) const {
  return copies_->plan.has(place_of_[static_cast<std::size_t>(rank)], data_.file_number_of(sample));
}

std::int64_t CopiedSamples::slot_of(std::int64_t sample) const {
  if (const auto slot = place_in(without_copy_, sample); slot >= 0) return slot;
  const auto slot = place_in(with_copy_, sample);
  return slot < 0 ? -1 : std::ssize(without_copy_) + slot;
}

}  // namespace keelson
