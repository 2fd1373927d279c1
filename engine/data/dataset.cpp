#include "engine/data/dataset.hpp"

#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"

namespace keelson {

void Dataset::read_transformed(const SampleId& id, const SampleTransform& transform, void* const* dst) const {
  read(id.index, dst);
  transform.apply(id, fields(), dst);
}

const CodedField* Dataset::coded(const SampleTransform* /*transform*/) const { return nullptr; }

ops::VoxelSample Dataset::read_codes(const SampleId& /*id*/, const SampleTransform* /*transform*/,
                                     void* const* /*dst*/) const {
  fail("internal error: codes were asked of {}, which has none", describe());
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
