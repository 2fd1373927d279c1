#pragma once

#include <array>
#include <cstdint>

/// The 48 symmetries of the cube, rotations and reflections, acting on channels-last fields (D, H, W, C) of any size. A
/// universe is as likely as its turned image, so turning samples at random multiplies the training data.
namespace keelson {

inline constexpr int cube_symmetries = 48;

/// The voxel at p goes to q with q[a] = flip[a] ? size - 1 - p[axis[a]] : p[axis[a]], for a = 0, 1, 2 (D, H, W).
struct CubeSymmetry {
  std::array<int, 3> axis{0, 1, 2};
  std::array<bool, 3> flip{};
};

/// Symmetry `index` of 0 ... 47; 0 is the identity, 0 ... 7 keep the axes.
CubeSymmetry cube_symmetry(int index);

/// The same in memory: voxel (d, h, w) goes to the elements from offset + d * step[0] + h * step[1] + w * step[2] on.
struct VoxelMap {
  std::int64_t offset = 0;
  std::array<std::int64_t, 3> step{};
};
VoxelMap voxel_map(int symmetry, std::int64_t size, std::int64_t channels);

/// dst = src turned by `symmetry`: two dense arrays (size, size, size, channels) that do not overlap.
void turn_cube(int symmetry, const float* src, float* dst, std::int64_t size, std::int64_t channels);

}  // namespace keelson
