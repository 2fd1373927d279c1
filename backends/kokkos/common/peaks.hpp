#pragma once

#include <cstdint>

/// What the device reaches at best (DevicePeaks). Each takes some tenths of a second and returns the best of several
/// runs.
namespace keelson::kokkos {

/// FLOP/s of fused multiply-adds on f32 accumulators in registers, with the widest vectors of this build, all threads.
double measure_fma_rate();

/// Bytes/s, read + written, of dst[i] = src[i] for `count` floats in the device's memory. What the hardware reads
/// besides, to own the lines that it writes, is not counted.
double measure_copy_rate(float* dst, const float* src, std::int64_t count);

}  // namespace keelson::kokkos
