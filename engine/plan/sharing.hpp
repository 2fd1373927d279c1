#pragma once

#include <cstdint>

namespace keelson {

/// What the ranks of a replica divide of a node.
enum class Sharing : std::uint8_t {
  none,      ///< nothing: all ranks compute the same, and a sample counts on the first one
  rows,      ///< samples: each rank computes some rows of the result, or its term of a sum over rows
  channels,  ///< channels: each rank computes some of the result's, or its term of a sum over channels
};

}  // namespace keelson
