#include "engine/ops/pool.hpp"

#include "engine/ops/window.hpp"

namespace keelson::ops {

Shape pool_dst_shape(const Shape& src, const PoolParams& params) {
  const auto dense = Shape::filled(params.kernel.rank(), 1);
  const auto positions =
      window_positions("pooling", src, {params.kernel, params.stride, dense, params.pad_begin, params.pad_end});
  for (int i = 0; i < positions.rank(); ++i)
    if (params.pad_begin[i] >= params.kernel[i] || params.pad_end[i] >= params.kernel[i])
      refuse(
          "pooling: padding {} before and {} after in spatial dim {} must be smaller than the kernel ({}), or a window "
          "holds "
          "nothing but padding",
          params.pad_begin[i], params.pad_end[i], i, params.kernel[i]);
  Shape dst{src[0], src[1]};
  for (auto p : positions) dst.push_back(p);
  return dst;
}

}  // namespace keelson::ops
