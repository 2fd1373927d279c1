#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>

#include "engine/base/philox.hpp"

namespace keelson::climate {

/// Independent uses of random numbers within one snapshot.
enum class RandomStream : std::uint32_t {
  kFlow = philox::stream_of("climate/flow"),          ///< streamfunction A
  kUpperFlow = philox::stream_of("climate/upper"),    ///< streamfunction B
  kMoisture = philox::stream_of("climate/moisture"),  ///< eta
  kRivers = philox::stream_of("climate/rivers"),
  kCyclones = philox::stream_of("climate/cyclones"),
  kNoise = philox::stream_of("climate/noise"),
};

/// Identifies a snapshot. Random numbers depend only on this key, use and index.
struct SnapshotKey {
  std::uint64_t seed = 1;
  std::uint64_t sample = 0;
};

/// Four random words; depend only on seed, sample, use and index.
constexpr philox::Block random_block(const SnapshotKey& key, RandomStream use, std::uint64_t index) {
  return philox::block(key.seed ^ (std::uint64_t{static_cast<std::uint32_t>(use)} << 32), key.sample, index);
}

/// Two independent standard normal numbers, from two random words (Box and Muller).
inline std::pair<double, double> normal_pair(std::uint32_t a, std::uint32_t b) {
  const double r = std::sqrt(-2 * std::log((a + 0.5) * 0x1p-32)), phase = 2 * std::numbers::pi * b * 0x1p-32;
  return {r * std::cos(phase), r * std::sin(phase)};
}

/// The same in single precision, with a third of the work.
inline std::pair<float, float> normal_pair_f32(std::uint32_t a, std::uint32_t b) {
  const float u = (static_cast<float>(a >> 8) + 0.5f) * 0x1p-24f;
  const float r = std::sqrt(-2 * std::log(u)),
              phase = 2 * std::numbers::pi_v<float> * static_cast<float>(b >> 8) * 0x1p-24f;
  return {r * std::cos(phase), r * std::sin(phase)};
}

/// A sequence of random numbers, for the few that describe an object.
class Draws {
 public:
  Draws(const SnapshotKey& key, RandomStream use, std::uint64_t object) : key_(key), use_(use), index_(object << 32) {}

  /// A uniform number in (least, most).
  double uniform(double least, double most) {
    const double u = (random_block(key_, use_, index_++)[0] + 0.5) * 0x1p-32;
    return least + (most - least) * u;
  }
  /// A number from Poisson's distribution, by multiplying uniform numbers (Knuth). `mean` may be up to some hundreds.
  int poisson(double mean) {
    int n = 0;
    for (double p = uniform(0, 1); p > std::exp(-mean); p *= uniform(0, 1)) ++n;
    return n;
  }

 private:
  SnapshotKey key_;
  RandomStream use_;
  std::uint64_t index_;
};

}  // namespace keelson::climate
