#pragma once

#include <algorithm>
#include <vector>

namespace keelson::bench {

/// Of repeated measurements, seconds.
struct Timing {
  double median = 0, fastest = 0, slowest = 0;
};

/// `seconds` is not empty; of an even number the larger middle one is the median.
inline Timing summarize(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front(), seconds.back()};
}

}  // namespace keelson::bench
