#include "engine/ops/resize.hpp"

#include <fmt/format.h>

#include <algorithm>

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

Rows resized_rows(std::int64_t in, std::int64_t out, ResizeGrid grid, const Rows& dst) {
  // As in ResizeGrid, in whole numbers: element o is at (factor o + offset) / divisor.
  const std::int64_t factor = grid == ResizeGrid::asymmetric ? in : grid == ResizeGrid::half_pixel ? 2 * in : in - 1;
  const std::int64_t offset = grid == ResizeGrid::half_pixel ? in - out : 0;
  const std::int64_t divisor = grid == ResizeGrid::asymmetric   ? out
                               : grid == ResizeGrid::half_pixel ? 2 * out
                                                                : std::max<std::int64_t>(out - 1, 1);
  const auto lower = [&](std::int64_t o) {
    return std::clamp<std::int64_t>((factor * o + offset) / divisor, 0, in - 1);
  };
  return {lower(dst.begin), std::min(in, lower(dst.end - 1) + 2)};
}

std::string describe(const ResizeDesc& d) {
  const char* grid = d.grid == ResizeGrid::asymmetric   ? "asymmetric"
                     : d.grid == ResizeGrid::half_pixel ? "half-pixel"
                                                        : "align-corners";
  return fmt::format("resize to {} x {}, {}, src {}", d.rows, d.columns, grid, to_string(d.src));
}

}  // namespace keelson::ops
