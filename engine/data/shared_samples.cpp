#include "engine/data/shared_samples.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"

namespace keelson {

SampleStore::SampleStore(const Dataset& data, Communicator* communicator)
    : digest_(data.digest()), samples_(data.size()), bytes_each_(data.stored_bytes()), bytes_(communicator) {
  const std::int64_t ranks = communicator ? communicator->size() : 1, rank = communicator ? communicator->rank() : 0;
  std::vector<std::byte> mine(static_cast<std::size_t>(bytes_each_));
  for (std::int64_t first = 0; first < samples_; first += ranks) {
    on_each_rank(communicator, [&] {
      if (first + rank >= samples_) return;
      data.read_stored(first + rank, mine.data());
      ++samples_read_;
    });
    for (std::int64_t r = 0; r < std::min(ranks, samples_ - first); ++r)
      bytes_.append(mine.data(), mine.size(), static_cast<int>(r));
  }
  bytes_.finish();
}

SharedSamples::SharedSamples(const Dataset& data, const SampleStore& store) : data_(data), store_(store) {
  KEELSON_EXPECT(store.digest() == data.digest() && store.samples() == data.size());
}

void SharedSamples::read(std::int64_t index, void* const* dst) const {
  SampleRequest request;
  request.id.index = index;
  data_.decode(request, store_.sample(index), dst);
}

void SharedSamples::read_sample(const SampleRequest& request, void* const* dst) const {
  data_.decode(request, store_.sample(request.id.index), dst);
}

void SharedSamples::read_stored(std::int64_t index, std::byte* dst) const {
  std::memcpy(dst, store_.sample(index), static_cast<std::size_t>(stored_bytes()));
}

}  // namespace keelson
