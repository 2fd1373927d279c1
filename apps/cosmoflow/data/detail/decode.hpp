#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/cosmoflow/data/symmetry.hpp"
#include "apps/cosmoflow/data/universe_dataset.hpp"
#include "engine/data/hdf5/hdf5.hpp"

namespace keelson::cosmoflow::detail {

/// A box of voxels as stored: i16, u16 or f32; the channels of a voxel are contiguous.
struct Voxels {
  const void* src = nullptr;
  hdf5::Type type = hdf5::Type::f32;
  std::array<std::int64_t, 3> extent{};  ///< D, H, W
  std::array<std::int64_t, 3> stride{};  ///< in elements; the stride of W is the number of stored channels
};

struct VoxelFormat {
  std::span<const int> channels;  ///< chosen ones
  std::int64_t stored_channels = 0;
  Normalisation normalisation = Normalisation::none;  ///< for `mean`, values are only converted here, since the mean is
                                                      ///< known only when all are decoded
};

/// Writes the chosen channels of voxel (d, h, w) as floats to dst + map.offset + d * map.step[0] + ...; the box may be
/// part of a cube. Returns false if a written value is NaN or infinite.
bool decode(const Voxels& voxels, const VoxelFormat& format, const VoxelMap& map, float* dst);

/// Whether voxels of this type are codes of 16 bits.
bool has_codes(hdf5::Type type);
/// The value of each of the 65536 codes; for Normalisation::mean, the value before the division.
std::vector<float> table_of_codes(hdf5::Type type, Normalisation normalisation);

/// Facts about codes that the host does not decode.
struct CodeFacts {
  bool valid = true;     ///< decode() would return true
  std::int64_t sum = 0;  ///< sum over the chosen channels; only with Normalisation::mean
};
/// Writes the voxels to `dst` (D, H, W, stored channels) without gaps, unless they are there already, and computes
/// their facts.
CodeFacts take_codes(const Voxels& voxels, const VoxelFormat& format, void* dst);

/// The stored value at a position of the box, as a number; for messages.
double stored_value(const Voxels& voxels, std::int64_t d, std::int64_t h, std::int64_t w, int channel);

/// float(log(x + 1)); NaN or -infinity if x + 1 has no finite logarithm.
float log1p_of(double stored);

}  // namespace keelson::cosmoflow::detail
