#include "engine/data/epoch_order.hpp"

#include <algorithm>
#include <bit>

#include "engine/base/error.hpp"

namespace keelson {
namespace {

constexpr int feistel_rounds = 12, least_bits = 4;

}  // namespace

EpochOrder::EpochOrder(std::int64_t size, std::uint64_t seed, std::int64_t epoch)
    : size_(size), key_{seed, philox::stream_of("sample order"), static_cast<std::uint64_t>(epoch)} {
  KEELSON_EXPECT(size >= 0 && epoch >= 0);
  const int bits =
      std::max<int>(least_bits, std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1)) - 1));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
}

/// Changes one half of the number by random bits that the other half decides; its own inverse.
std::uint64_t EpochOrder::round(int round, std::uint64_t number) const {
  const std::uint64_t low_mask = (std::uint64_t{1} << low_bits_) - 1, high_mask = (std::uint64_t{1} << high_bits_) - 1;
  const std::uint64_t low = number & low_mask, high = number >> low_bits_;
  const auto random = [&](std::uint64_t half) {
    return std::uint64_t{philox::block(key_, static_cast<std::uint64_t>(round) << 48 | half)[0]};
  };
  if (round % 2 == 0) return (high ^ (random(low) & high_mask)) << low_bits_ | low;
  return high << low_bits_ | (low ^ (random(high) & low_mask));
}

std::int64_t EpochOrder::operator[](std::int64_t position) const {
  KEELSON_EXPECT(position >= 0 && position < size_);
  auto n = static_cast<std::uint64_t>(position);
  do
    for (int r = 0; r < feistel_rounds; ++r) n = round(r, n);
  while (n >= static_cast<std::uint64_t>(size_));
  return static_cast<std::int64_t>(n);
}

std::int64_t EpochOrder::position_of(std::int64_t sample) const {
  KEELSON_EXPECT(sample >= 0 && sample < size_);
  auto n = static_cast<std::uint64_t>(sample);
  do
    for (int r = feistel_rounds; r-- > 0;) n = round(r, n);
  while (n >= static_cast<std::uint64_t>(size_));
  return static_cast<std::int64_t>(n);
}

}  // namespace keelson
