#include "engine/ops/peaks.hpp"

#include <algorithm>

namespace keelson {

double DevicePeaks::share(const ops::Cost& work, double seconds) const {
  if (seconds <= 0) return 0;
  return std::max(work.least_flops() / flops_per_second, work.bytes / copy_bytes_per_second) / seconds;
}

double DevicePeaks::attainable(double flops_per_byte) const {
  return std::min(flops_per_second, flops_per_byte * copy_bytes_per_second);
}

}  // namespace keelson
