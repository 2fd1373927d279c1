#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/philox.hpp"

namespace keelson::insitu {

/// A uniform random sample, of bounded size, of all tiles offered so far (Vitter 1985, algorithm R). The choice depends
/// only on seed, stream and the number of offers.
class Reservoir {
 public:
  /// `stream`: must differ between ranks.
  Reservoir(std::int64_t capacity, std::uint64_t seed, std::uint32_t stream)
      : capacity_(capacity), key_{seed, stream, 0} {}

  /// The slot in which to store the next tile, or -1 if the tile is not kept.
  std::int64_t offer() {
    const std::int64_t number = offered_++;
    if (number < capacity_) return number;
    const auto slot = static_cast<std::int64_t>(
        philox::below(key_, static_cast<std::uint64_t>(number), static_cast<std::uint64_t>(number) + 1));
    return slot < capacity_ ? slot : -1;
  }
  std::int64_t size() const { return offered_ < capacity_ ? offered_ : capacity_; }  ///< slots that hold a tile
  std::int64_t capacity() const { return capacity_; }
  std::int64_t offered() const { return offered_; }  ///< number of tiles offered so far

 private:
  std::int64_t capacity_, offered_ = 0;
  philox::Key key_;
};

}  // namespace keelson::insitu
