#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "engine/base/error.hpp"

namespace keelson::nets {

/// Throws InputError, naming the network and a size that fits, unless rows and columns are multiples of `factor`.
inline void require_image_size(std::string_view network, std::int64_t rows, std::int64_t columns, std::int64_t factor) {
  const auto fits = [&](std::int64_t extent) { return std::max<std::int64_t>(extent / factor, 1) * factor; };
  if (fits(rows) != rows || fits(columns) != columns)
    refuse("{} takes inputs whose rows and columns are multiples of {}, not {} x {}; try {} x {}", network, factor,
           rows, columns, fits(rows), fits(columns));
}

}  // namespace keelson::nets
