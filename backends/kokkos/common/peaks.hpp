#pragma once

#include <cstdint>

/// Measures the highest rates of the device (DevicePeaks). Each function takes some tenths of a second and returns the
/// best of several runs.
namespace keelson::kokkos {

/// FLOP/s of fused multiply-adds on f32 accumulators in registers, with the widest vectors of this build and all
/// threads.
double measure_fma_rate();

/// Bytes/s, read + written, of dst[i] = src[i] for `count` floats in the device's memory. Does not count that the
/// hardware also reads the cache lines that it writes.
double measure_copy_rate(float* dst, const float* src, std::int64_t count);

}  // namespace keelson::kokkos
