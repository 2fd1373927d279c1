#pragma once

#include <string>
#include <vector>

#include "apps/bench/scale/study.hpp"

namespace keelson::bench {

struct ScalePage {
  const ScaleStudy& study;
  std::vector<NamedExchange> exchanges;
  std::vector<ScalePoint> weak, strong;  ///< strong may be empty
};

/// One HTML page with everything inside: efficiency over ranks for each way to exchange, and the tables.
std::string render_scale(const ScalePage& page);

}  // namespace keelson::bench
