#include <cmath>

#include "tests/oracle/ops.hpp"

namespace keelson::oracle {

namespace {

/// Calls window(plane, dst index within the plane, src offsets within the plane that lie inside the input, in row-major
/// order).
template <class Window>
void for_each_window(const Shape& src, const ops::PoolParams& p, Window window) {
  const Shape dst = pool_shape(src, p);
  const int spatial = src.rank() - 2;
  Shape in, out;
  for (int i = 0; i < spatial; ++i) {
    in.push_back(src[i + 2]);
    out.push_back(dst[i + 2]);
  }
  std::vector<std::int64_t> inside;
  for (std::int64_t plane = 0; plane < src[0] * src[1]; ++plane)
    for (std::int64_t o = 0; o < out.elements(); ++o) {
      const Shape at = indices_of(out, o);
      inside.clear();
      for (std::int64_t k = 0; k < p.kernel.elements(); ++k) {
        const Shape tap = indices_of(p.kernel, k);
        std::int64_t offset = 0;
        bool ok = true;
        for (int i = 0; i < spatial; ++i) {
          const auto x = at[i] * p.stride[i] - p.pad_begin[i] + tap[i];
          ok = ok && x >= 0 && x < in[i];
          offset = offset * in[i] + x;
        }
        if (ok) inside.push_back(offset);
      }
      window(plane * in.elements(), plane * out.elements() + o, inside);
    }
}

double divisor(const ops::PoolParams& p, std::size_t inside) {
  return p.count_padding ? static_cast<double>(p.kernel.elements()) : static_cast<double>(inside);
}

/// Offset of the first largest element, or of the first NaN.
std::int64_t argmax(const Array& src, std::int64_t plane, const std::vector<std::int64_t>& inside) {
  std::int64_t best = plane + inside.at(0);
  for (auto i : inside) {
    if (std::isnan(src[best])) break;
    if (src[plane + i] > src[best] || std::isnan(src[plane + i])) best = plane + i;
  }
  return best;
}

}  // namespace

Shape pool_shape(const Shape& src, const ops::PoolParams& p) {
  Shape dst{src[0], src[1]};
  for (int i = 0; i < src.rank() - 2; ++i) {
    std::int64_t positions = 0;
    for (auto at = -p.pad_begin[i]; at + p.kernel[i] <= src[i + 2] + p.pad_end[i]; at += p.stride[i]) ++positions;
    dst.push_back(positions);
  }
  return dst;
}

Array pool_forward(const Array& src, const ops::PoolParams& p) {
  Array dst(pool_shape(src.shape, p));
  for_each_window(src.shape, p, [&](std::int64_t plane, std::int64_t o, const std::vector<std::int64_t>& inside) {
    if (p.kind == ops::PoolKind::max) {
      dst[o] = src[argmax(src, plane, inside)];
    } else {
      double total = 0;
      for (auto i : inside) total += src[plane + i];
      dst[o] = total / divisor(p, inside.size());
    }
  });
  return dst;
}

Array pool_backward(const Array& diff_dst, const Array& src, const ops::PoolParams& p) {
  Array diff_src(src.shape);
  for_each_window(src.shape, p, [&](std::int64_t plane, std::int64_t o, const std::vector<std::int64_t>& inside) {
    if (p.kind == ops::PoolKind::max)
      diff_src[argmax(src, plane, inside)] += diff_dst[o];
    else
      for (auto i : inside) diff_src[plane + i] += diff_dst[o] / divisor(p, inside.size());
  });
  return diff_src;
}

}  // namespace keelson::oracle
