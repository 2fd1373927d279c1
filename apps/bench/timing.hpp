#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

namespace keelson::bench {

/// Seconds of repeated measurements.
struct Timing {
  double median = 0, fastest = 0, slowest = 0, mean = 0;
};

/// `seconds` must not be empty. For an even number, the median is the larger of the two middle values.
inline Timing summarize(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  return {seconds[seconds.size() / 2], seconds.front(), seconds.back(), sum / static_cast<double>(seconds.size())};
}

}  // namespace keelson::bench
