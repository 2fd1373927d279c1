#pragma once

#include <array>
#include <cstdint>

#include "engine/data/dataset.hpp"
#include "engine/ops/decode_voxels.hpp"

/// The 48 symmetries of the cube, rotations and reflections, acting on channels-last fields (D, H, W, C) of any size. A
/// universe is as likely as its turned image, so samples that are turned at random are further training data.
namespace keelson::cosmoflow {

inline constexpr int cube_symmetries = 48;
/// The first of them, which keep the dimension D: mirrored or not, with planes (H, W) turned or mirrored.
inline constexpr int plane_symmetries = 16;

/// The voxel at p goes to q with q[a] = flip[a] ? size - 1 - p[axis[a]] : p[axis[a]], for a = 0, 1, 2 (D, H, W).
struct CubeSymmetry {
  std::array<int, 3> axis{0, 1, 2};
  std::array<bool, 3> flip{};
};

/// Symmetry `index` of 0 ... 47; 0 is the identity, 0 ... 7 keep the axes, 0 ... 15 the axis D.
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

/// Turns all cubic fields of a sample by one of the 48 symmetries, or of the 16 that keep the dimension D, drawn
/// uniformly. UniverseDataset turns while it decodes; with the 16 it reads those planes alone that a rank needs of a
/// sample (--spatial).
class RandomCubeSymmetry final : public SampleTransform {
 public:
  /// `symmetries`: cube_symmetries or plane_symmetries.
  explicit RandomCubeSymmetry(int symmetries = cube_symmetries);
  /// Throws InputError if the data set has no cubic field.
  void check(const Dataset& dataset) const override;
  void apply(const SampleId& id, const std::vector<Field>& fields, void* const* sample) const override;
  std::string describe() const override;
  int draw(const SampleId& id) const;  ///< the symmetry of this sample in this epoch

 private:
  int symmetries_;
};

}  // namespace keelson::cosmoflow
