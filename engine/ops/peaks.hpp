#pragma once

#include "engine/ops/primitive.hpp"

namespace keelson {

/// What a device reaches at best, as measured on it: the two limits of the roofline model (Williams, Waterman &
/// Patterson, "Roofline: an insightful visual performance model for multicore architectures", 2009).
struct DevicePeaks {
  double flops_per_second = 0;       ///< f32, 2 per fused multiply-add, from registers
  double copy_bytes_per_second = 0;  ///< of a copy of arrays far larger than the caches: bytes read + bytes written

  /// Share of what the machine could have done in this time: the larger of FLOP/s over their peak and bytes/s over the
  /// copy bandwidth, so that work bound by memory is judged by memory. Above 1 where the data came from caches. 0 where
  /// no time was measured.
  double share(const ops::Cost& work, double seconds) const;
  /// The roofline, FLOP/s: what is attainable at `flops_per_byte`.
  double attainable(double flops_per_byte) const;
};

}  // namespace keelson
