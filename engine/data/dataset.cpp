#include "engine/data/dataset.hpp"

#include <algorithm>

#include "engine/base/fnv1a.hpp"
#include "engine/data/symmetry.hpp"

namespace keelson {

bool is_cubic(const Field& field) {
  const Shape& s = field.shape;
  return field.dtype == DType::f32 && s.rank() == 4 && s[1] == s[2] && s[2] == s[3];
}

void Dataset::read_turned(std::int64_t index, int symmetry, void* const* dst) const {
  thread_local std::vector<std::vector<float>>
      scratch;  // kept between samples, so that steady decoding does not allocate
  thread_local std::vector<void*> targets;
  const auto& all = fields();
  scratch.resize(std::max(scratch.size(), all.size()));
  targets.assign(dst, dst + all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!is_cubic(all[i])) continue;
    scratch[i].resize(static_cast<std::size_t>(all[i].shape.elements()));
    targets[i] = scratch[i].data();
  }
  read(index, targets.data());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!is_cubic(all[i])) continue;
    turn_cube(symmetry, scratch[i].data(), static_cast<float*>(dst[i]), all[i].shape[1], all[i].shape[0]);
  }
}

std::uint64_t Dataset::digest() const {
  Digest digest;
  digest.add(size());
  for (const auto& f : fields()) {
    digest.add(f.name).add(f.dtype);
    for (const auto extent : f.shape) digest.add(extent);
  }
  return digest.value();
}

}  // namespace keelson
