#pragma once

#include <array>
#include <cstdint>

#include "engine/data/dataset.hpp"

/// The 48 symmetries of the cube, rotations and reflections, acting on channels-last fields (D, H, W, C) of any size. A
/// universe is as likely as its turned image, so samples that are turned at random are further training data.
namespace keelson::cosmoflow {

inline constexpr int cube_symmetries = 48;

/// The voxel at p goes to q with q[a] = flip[a] ? size - 1 - p[axis[a]] : p[axis[a]], for a = 0, 1, 2 (D, H, W).
struct CubeSymmetry {
  std::array<int, 3> axis{0, 1, 2};
  std::array<bool, 3> flip{};
};

/// Symmetry `index` of 0 ... 47; 0 is the identity, 0 ... 7 keep the axes.
CubeSymmetry cube_symmetry(int index);

/// A symmetry in memory: voxel (d, h, w) goes to the elements from offset + d * step[0] + h * step[1] + w * step[2] on.
struct VoxelMap {
  std::int64_t offset = 0;
  std::array<std::int64_t, 3> step{};
};
VoxelMap voxel_map(int symmetry, std::int64_t size, std::int64_t channels);

/// The inverse map: where each voxel of the new cube comes from.
ops::VoxelSample turned_voxels(int symmetry, std::int64_t size);

/// dst = src turned by `symmetry`: two dense arrays (size, size, size, channels) that do not overlap.
void turn_cube(int symmetry, const float* src, float* dst, std::int64_t size, std::int64_t channels);

/// A field that can be turned: f32, of logical shape (C, S, S, S).
bool is_cubic(const Field& field);

/// Rotates and mirrors all cubic fields of a sample by one of the 48 symmetries, drawn uniformly. UniverseDataset does
/// so while it decodes.
class RandomCubeSymmetry final : public SampleTransform {
 public:
  /// Throws InputError if the data set has no cubic field.
  void check(const Dataset& dataset) const override;
  void apply(const SampleId& id, const std::vector<Field>& fields, void* const* sample) const override;
  std::string describe() const override { return "one of the 48 symmetries of the cube"; }
  static int draw(const SampleId& id);  ///< the symmetry of this sample in this epoch
};

}  // namespace keelson::cosmoflow
