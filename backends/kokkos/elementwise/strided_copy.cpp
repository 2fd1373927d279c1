#include "backends/kokkos/elementwise/strided_copy.hpp"

#include <algorithm>
#include <vector>

namespace keelson::kokkos {

namespace {

using Dim = CopyPlan::Dim;

/// The dims with an extent above 1, slowest in dst first. Neighbours that form one dim in both layouts are joined.
std::vector<Dim> joined_dims(const Shape& shape, const Layout& src, const Layout& dst) {
  std::vector<Dim> dims;
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] != 1) dims.push_back({shape[i], src.strides()[i], dst.strides()[i], {}});
  std::stable_sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.dst > b.dst; });
  std::vector<Dim> joined;
  for (const auto& d : dims) {
    if (!joined.empty() && joined.back().src == d.src * d.extent && joined.back().dst == d.dst * d.extent)
      joined.back() = {joined.back().extent * d.extent, d.src, d.dst, {}};
    else
      joined.push_back(d);
  }
  return joined;
}

}  // namespace

CopyPlan plan_copy(const Shape& shape, const Layout& src, const Layout& dst) {
  CopyPlan p;
  auto dims = joined_dims(shape, src, dst);
  if (!dims.empty()) {
    p.row = dims.back();
    dims.pop_back();
    const auto fastest =
        std::min_element(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.src < b.src; });
    if (fastest != dims.end() && fastest->src < p.row.src) {
      p.column = *fastest;
      dims.erase(fastest);
    }
  }
  const bool runs = p.column.extent == 1;
  p.row_tile = runs ? std::min<Index>(p.row.extent, 16384) : detail::copy_tile;
  p.column_tile = runs ? 1 : detail::copy_tile;
  for (const auto& d : dims) p.outer[p.outer_rank++] = d, p.outer_count *= d.extent;
  if (shape.elements() == 0) p.outer_count = 0;
  if (p.row_tile < 1) p.row_tile = 1;
  const auto set_divider = [&](Dim& d) { d.by_extent = Divider(d.extent, shape.elements()); };
  set_divider(p.column);
  for (int i = 0; i < p.outer_rank; ++i) set_divider(p.outer[i]);
  return p;
}

}  // namespace keelson::kokkos
