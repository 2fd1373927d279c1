#pragma once

#include <algorithm>
#include <vector>

namespace keelson::bench {

/// Seconds of repeated measurements.
struct Timing {
  double median = 0, fastest = 0, slowest = 0;
};

/// `seconds` must not be empty. For an even number, the median is the larger of the two middle values.
inline Timing summarize(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front(), seconds.back()};
}

}  // namespace keelson::bench
