#include "engine/data/dataset.hpp"

#include "engine/base/fnv1a.hpp"

namespace keelson {

void Dataset::read_transformed(const SampleId& id, const SampleTransform& transform, void* const* dst) const {
  read(id.index, dst);
  transform.apply(id, fields(), dst);
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
