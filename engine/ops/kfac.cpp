#include "engine/ops/kfac.hpp"

#include <fmt/format.h>

namespace keelson::ops {

std::int64_t PatchesDesc::positions() const {
  if (window.kernel.empty()) return 1;
  ConvParams one_filter = window;
  one_filter.groups = 1;
  const Shape dst = conv_dst_shape(src.shape, one_filter, 1);
  return dst.elements() / src.shape[0];
}

std::int64_t PatchesDesc::columns() const {
  std::int64_t elements = src.shape[1];
  for (const auto k : window.kernel) elements *= k;
  return elements + (ones ? 1 : 0);
}

std::vector<TensorDesc> FactorInversesDesc::inverses() const {
  std::vector<TensorDesc> all;
  for (const TensorDesc& f : factors) all.push_back(inverse(f.shape[0], eigen));
  return all;
}

std::string describe(const PatchesDesc& d) {
  return fmt::format("patches, src {}, kernel {}, {} of {} positions", to_string(d.src), to_string(d.window.kernel),
                     d.chosen(), d.positions());
}

std::string describe(const PackedTriangleDesc& d) { return fmt::format("packed triangle of {} rows", d.rows); }

std::string describe(const RunningFactorsDesc& d) {
  return fmt::format("running factors of {} and {} rows, decay {}", d.a_rows(), d.outputs, d.decay);
}

std::string describe(const FactorInversesDesc& d) {
  std::int64_t largest = 0;
  for (const TensorDesc& f : d.factors) largest = std::max(largest, f.shape[0]);
  return fmt::format("{} of {} of {} factors, the largest of {} rows", d.eigen ? "eigenvectors" : "inverses",
                     d.matrices.size(), d.factors.size(), largest);
}

std::string describe(const EigenQuotientDesc& d) {
  return fmt::format("quotient by eigenvalues, {} x {}, damping {}", d.rows, d.columns, d.damping);
}

std::string describe(const InnerProductDesc& d) { return fmt::format("inner product, src {}", to_string(d.src)); }

std::string describe(const KlClipDesc& d) {
  return fmt::format("kl clip {}, direction {}", d.clip, to_string(d.direction));
}

}  // namespace keelson::ops
