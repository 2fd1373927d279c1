#pragma once

#include <cstdint>

namespace keelson::ops {

/// Which rows of a larger value an operand has, if a result depends on the place of an element in that value. Rows
/// are counted along the first spatial dimension.
struct Part {
  std::int64_t rows = 0;   ///< of the larger value; 0: the operand is the whole value
  std::int64_t first = 0;  ///< the operand's first row in it
  friend bool operator==(const Part&, const Part&) = default;
};

}  // namespace keelson::ops
