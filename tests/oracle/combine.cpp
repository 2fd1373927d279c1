#include <algorithm>
#include <cmath>

#include "tests/oracle/ops.hpp"

namespace keelson::oracle {

namespace {

/// A shape seen as (outer, extent, inner) around `axis`.
struct Around {
  Around(const Shape& s, int axis) : extent(s[axis]) {
    for (int i = 0; i < s.rank(); ++i) (i < axis ? outer : i > axis ? inner : unused) *= s[i];
  }
  std::int64_t offset(std::int64_t o, std::int64_t e, std::int64_t i) const { return (o * extent + e) * inner + i; }
  std::int64_t outer = 1, extent, inner = 1, unused = 1;
};

/// Calls copy(src number, src offset, dst offset) for every element of the joined array.
template <class Copy>
void for_each_joined(const Shape& dst, const std::vector<Shape>& srcs, int axis, Copy copy) {
  const Around whole(dst, axis);
  std::int64_t begin = 0;
  for (std::size_t k = 0; k < srcs.size(); ++k) {
    const Around part(srcs[k], axis);
    for (std::int64_t o = 0; o < part.outer; ++o)
      for (std::int64_t e = 0; e < part.extent; ++e)
        for (std::int64_t i = 0; i < part.inner; ++i) copy(k, part.offset(o, e, i), whole.offset(o, begin + e, i));
    begin += part.extent;
  }
}

}  // namespace

Array sum(const std::vector<Array>& srcs) {
  Array dst(srcs.at(0).shape);
  for (const auto& src : srcs)
    for (std::int64_t i = 0; i < dst.elements(); ++i) dst[i] += src[i];
  return dst;
}

Array concat(const std::vector<Array>& srcs, int axis) {
  std::vector<Shape> shapes;
  Shape joined = srcs.at(0).shape;
  joined[axis] = 0;
  for (const auto& s : srcs) {
    shapes.push_back(s.shape);
    joined[axis] += s.shape[axis];
  }
  Array dst(joined);
  for_each_joined(joined, shapes, axis, [&](std::size_t k, std::int64_t s, std::int64_t d) { dst[d] = srcs[k][s]; });
  return dst;
}

std::vector<Array> concat_backward(const Array& diff_dst, const std::vector<Shape>& src_shapes, int axis) {
  std::vector<Array> diff_srcs;
  for (const auto& s : src_shapes) diff_srcs.emplace_back(s);
  for_each_joined(diff_dst.shape, src_shapes, axis,
                  [&](std::size_t k, std::int64_t s, std::int64_t d) { diff_srcs[k][s] = diff_dst[d]; });
  return diff_srcs;
}

Array softmax_forward(const Array& src, int axis) {
  Array dst(src.shape);
  const Around a(src.shape, axis);
  for (std::int64_t o = 0; o < a.outer; ++o)
    for (std::int64_t i = 0; i < a.inner; ++i) {
      double largest = src[a.offset(o, 0, i)], total = 0;
      for (std::int64_t e = 1; e < a.extent; ++e) largest = std::max(largest, src[a.offset(o, e, i)]);
      for (std::int64_t e = 0; e < a.extent; ++e) total += std::exp(src[a.offset(o, e, i)] - largest);
      for (std::int64_t e = 0; e < a.extent; ++e)
        dst[a.offset(o, e, i)] = std::exp(src[a.offset(o, e, i)] - largest) / total;
    }
  return dst;
}

/// d src_i = dst_i (d dst_i - sum_j dst_j d dst_j)
Array softmax_backward(const Array& diff_dst, const Array& dst, int axis) {
  Array diff_src(dst.shape);
  const Around a(dst.shape, axis);
  for (std::int64_t o = 0; o < a.outer; ++o)
    for (std::int64_t i = 0; i < a.inner; ++i) {
      double total = 0;
      for (std::int64_t e = 0; e < a.extent; ++e) total += dst[a.offset(o, e, i)] * diff_dst[a.offset(o, e, i)];
      for (std::int64_t e = 0; e < a.extent; ++e) {
        const auto at = a.offset(o, e, i);
        diff_src[at] = dst[at] * (diff_dst[at] - total);
      }
    }
  return diff_src;
}

}  // namespace keelson::oracle
