#include "engine/data/symmetry.hpp"

#include <numeric>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/data/detail/decode.hpp"

namespace keelson {

CubeSymmetry cube_symmetry(int index) {
  KEELSON_EXPECT(index >= 0 && index < cube_symmetries);
  constexpr std::array<int, 3> axes[] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  return {axes[index / 8], {(index & 4) != 0, (index & 2) != 0, (index & 1) != 0}};
}

VoxelMap voxel_map(int symmetry, std::int64_t size, std::int64_t channels) {
  const CubeSymmetry s = cube_symmetry(symmetry);
  const std::int64_t stride[3] = {size * size * channels, size * channels, channels};
  VoxelMap map;
  for (int a = 0; a < 3; ++a) {
    map.step[s.axis[a]] = s.flip[a] ? -stride[a] : stride[a];
    if (s.flip[a]) map.offset += (size - 1) * stride[a];
  }
  return map;
}

void turn_cube(int symmetry, const float* src, float* dst, std::int64_t size, std::int64_t channels) {
  std::vector<int> all(static_cast<std::size_t>(channels));
  std::iota(all.begin(), all.end(), 0);
  const detail::Voxels voxels{
      src, hdf5::Type::f32, {size, size, size}, {size * size * channels, size * channels, channels}};
  detail::decode(voxels, {all, channels, Normalisation::none}, voxel_map(symmetry, size, channels), dst);
}

}  // namespace keelson
