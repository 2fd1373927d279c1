#include "engine/ops/resize.hpp"

#include <fmt/format.h>

namespace keelson::ops {

TensorDesc ResizeDesc::src_desc() const {
  return src.layout.is_any() ? src.with(Layout::channels_last(src.shape)) : src;
}

TensorDesc ResizeDesc::dst_desc() const {
  const TensorDesc from = src_desc();
  const Shape shape{src.shape[0], src.shape[1], rows, columns};
  const bool last = from.layout.is_channels_last(from.shape);
  return {shape, src.dtype, last ? Layout::channels_last(shape) : Layout::plain(shape)};
}

std::string describe(const ResizeDesc& d) {
  const char* grid = d.grid == ResizeGrid::asymmetric   ? "asymmetric"
                     : d.grid == ResizeGrid::half_pixel ? "half-pixel"
                                                        : "align-corners";
  return fmt::format("resize to {} x {}, {}, src {}", d.rows, d.columns, grid, to_string(d.src));
}

}  // namespace keelson::ops
