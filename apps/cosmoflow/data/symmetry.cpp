#include "apps/cosmoflow/data/symmetry.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "apps/cosmoflow/data/detail/decode.hpp"
#include "engine/base/error.hpp"
#include "engine/base/philox.hpp"

namespace keelson::cosmoflow {

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

ops::VoxelSample turned_voxels(int symmetry, std::int64_t size) {
  const CubeSymmetry s = cube_symmetry(symmetry);
  const std::int64_t stride[3] = {size * size, size, 1};
  ops::VoxelSample sample;
  sample.present = 1;
  for (int a = 0; a < 3; ++a) {
    const auto along = static_cast<std::int32_t>(stride[s.axis[a]]);
    sample.step[a] = s.flip[a] ? -along : along;
    if (s.flip[a]) sample.origin += static_cast<std::int32_t>(size - 1) * along;
  }
  return sample;
}

void turn_cube(int symmetry, const float* src, float* dst, std::int64_t size, std::int64_t channels) {
  std::vector<int> all(static_cast<std::size_t>(channels));
  std::iota(all.begin(), all.end(), 0);
  const detail::Voxels voxels{
      src, hdf5::Type::f32, {size, size, size}, {size * size * channels, size * channels, channels}};
  detail::decode(voxels, {all, channels, Normalisation::none}, voxel_map(symmetry, size, channels), dst);
}

bool is_cubic(const Field& field) {
  const Shape& s = field.shape;
  return field.dtype == DType::f32 && s.rank() == 4 && s[1] == s[2] && s[2] == s[3];
}

void RandomCubeSymmetry::check(const Dataset& dataset) const {
  if (std::any_of(dataset.fields().begin(), dataset.fields().end(), is_cubic)) return;
  refuse("Augmentation turns cubes, but these data have no cubes: {}. Turn augmentation off", dataset.describe());
}

RandomCubeSymmetry::RandomCubeSymmetry(int symmetries) : symmetries_(symmetries) {
  KEELSON_EXPECT(symmetries == cube_symmetries || symmetries == plane_symmetries);
}

std::string RandomCubeSymmetry::describe() const {
  return symmetries_ == cube_symmetries ? "one of the 48 symmetries of the cube"
                                        : "one of the 16 symmetries of the cube that keep the first dimension";
}

int RandomCubeSymmetry::draw(const SampleId& id) const {
  const philox::Key key{id.seed, philox::stream_of("cube symmetry"), static_cast<std::uint64_t>(id.epoch)};
  return static_cast<int>(
      philox::below(key, static_cast<std::uint64_t>(id.index), static_cast<std::uint64_t>(symmetries_)));
}

void RandomCubeSymmetry::apply(const SampleId& id, const std::vector<Field>& fields, void* const* sample) const {
  thread_local std::vector<float> before;  // kept between samples, so that decoding does not allocate
  const int symmetry = draw(id);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (!is_cubic(fields[i])) continue;
    auto* x = static_cast<float*>(sample[i]);
    before.assign(x, x + fields[i].shape.elements());
    turn_cube(symmetry, before.data(), x, fields[i].shape[1], fields[i].shape[0]);
  }
}

}  // namespace keelson::cosmoflow
