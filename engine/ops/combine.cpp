#include "engine/ops/combine.hpp"

namespace keelson::ops {

Shape concat_dst_shape(const std::vector<Shape>& srcs, int axis) {
  if (srcs.empty()) refuse("concat: no inputs; at least one is needed");
  Shape dst = srcs[0];
  if (axis < 0 || axis >= dst.rank())
    refuse("concat: axis {} does not exist in an input of shape {}; axes count from 0 to {}", axis, to_string(dst),
           dst.rank() - 1);
  for (std::size_t i = 1; i < srcs.size(); ++i) {
    const auto& s = srcs[i];
    bool fits = s.rank() == dst.rank();
    for (int d = 0; fits && d < dst.rank(); ++d) fits = d == axis || s[d] == dst[d];
    if (!fits)
      refuse("concat: input {} has shape {}, which differs from input 0 ({}) in more than axis {}", i, to_string(s),
             to_string(srcs[0]), axis);
    dst[axis] += s[axis];
  }
  return dst;
}

}  // namespace keelson::ops
