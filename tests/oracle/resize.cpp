#include <algorithm>
#include <cmath>

#include "tests/oracle/ops.hpp"

namespace keelson::oracle {

namespace {

/// The two elements of an axis that an element of the result takes, and the part of the second one.
struct Neighbours {
  std::int64_t lower, upper;
  double part;
};
Neighbours neighbours(std::int64_t o, std::int64_t in, std::int64_t out, ops::ResizeGrid grid) {
  const auto place = static_cast<double>(o), from = static_cast<double>(in), to = static_cast<double>(out);
  double p = 0;
  if (grid == ops::ResizeGrid::asymmetric) p = place * from / to;
  if (grid == ops::ResizeGrid::half_pixel) p = (place + 0.5) * from / to - 0.5;
  if (grid == ops::ResizeGrid::align_corners && out > 1) p = place * (from - 1) / (to - 1);
  p = std::clamp(p, 0.0, from - 1);
  const auto lower = static_cast<std::int64_t>(std::floor(p));
  return {lower, std::min(lower + 1, in - 1), p - std::floor(p)};
}

/// Calls use(element of dst, element of src, weight) for all that is read.
template <class Use>
void for_all_reads(const Shape& src, std::int64_t rows, std::int64_t columns, ops::ResizeGrid grid, const Use& use) {
  for (std::int64_t i = 0; i < src[0] * src[1]; ++i)
    for (std::int64_t y = 0; y < rows; ++y)
      for (std::int64_t x = 0; x < columns; ++x) {
        const auto v = neighbours(y, src[2], rows, grid), h = neighbours(x, src[3], columns, grid);
        const auto read = [&](std::int64_t row, std::int64_t column, double weight) {
          use((i * rows + y) * columns + x, (i * src[2] + row) * src[3] + column, weight);
        };
        read(v.lower, h.lower, (1 - v.part) * (1 - h.part));
        read(v.lower, h.upper, (1 - v.part) * h.part);
        read(v.upper, h.lower, v.part * (1 - h.part));
        read(v.upper, h.upper, v.part * h.part);
      }
}

}  // namespace

Array resize_forward(const Array& src, std::int64_t rows, std::int64_t columns, ops::ResizeGrid grid) {
  Array dst({src.shape[0], src.shape[1], rows, columns});
  for_all_reads(src.shape, rows, columns, grid, [&](auto to, auto from, double w) { dst[to] += w * src[from]; });
  return dst;
}

Array resize_backward(const Array& diff_dst, const Shape& src, ops::ResizeGrid grid) {
  Array diff_src(src);
  for_all_reads(src, diff_dst.shape[2], diff_dst.shape[3], grid,
                [&](auto to, auto from, double w) { diff_src[from] += w * diff_dst[to]; });
  return diff_src;
}

}  // namespace keelson::oracle
