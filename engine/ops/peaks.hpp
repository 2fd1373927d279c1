#pragma once

#include "engine/ops/primitive.hpp"

namespace keelson {

/// The measured peaks of a device: the two limits of the roofline model (Williams, Waterman & Patterson, "Roofline: an
/// insightful visual performance model for multicore architectures", 2009).
struct DevicePeaks {
  double flops_per_second = 0;       ///< f32, 2 per fused multiply-add, from registers
  double copy_bytes_per_second = 0;  ///< bytes read + bytes written in a copy of arrays far larger than the caches

  /// Share of the peak that this work reached: the larger of FLOP/s over the peak of FLOP/s and bytes/s over the copy
  /// bandwidth, so that memory-bound work is compared with the bandwidth. FLOPs are Cost::least_flops(). Above 1 if the
  /// data came from caches. 0 if no time was measured.
  double share(const ops::Cost& work, double seconds) const;
  /// The roofline: attainable FLOP/s at `flops_per_byte`.
  double attainable(double flops_per_byte) const;
};

}  // namespace keelson
