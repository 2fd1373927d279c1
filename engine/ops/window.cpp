#include "engine/ops/window.hpp"

namespace keelson::ops {

namespace {

void check_entries(std::string_view op, std::string_view what, const Shape& given, int spatial, std::int64_t least) {
  if (given.rank() != spatial)
    refuse("{}: {} has {} entries ({}), but the input has {} spatial dims; give one entry for each", op, what,
           given.rank(), to_string(given), spatial);
  for (auto v : given)
    if (v < least) refuse("{}: {} is {}; every entry must be at least {}", op, what, to_string(given), least);
}

}  // namespace

void check_window(std::string_view op, const Shape& src, const Window& w) {
  const int spatial = src.rank() - 2;
  if (spatial < 1 || spatial > 3)
    refuse("{}: the input has shape {}; expected (N, C, spatial...) with 1 to 3 spatial dims", op, to_string(src));
  check_entries(op, "kernel", w.kernel, spatial, 1);
  check_entries(op, "stride", w.stride, spatial, 1);
  check_entries(op, "dilation", w.dilation, spatial, 1);
  check_entries(op, "pad_begin", w.pad_begin, spatial, 0);
  check_entries(op, "pad_end", w.pad_end, spatial, 0);
}

Shape window_positions(std::string_view op, const Shape& src, const Window& w) {
  check_window(op, src, w);
  const int spatial = src.rank() - 2;
  Shape positions;
  for (int i = 0; i < spatial; ++i) {
    const auto reach = w.dilation[i] * (w.kernel[i] - 1) + 1;
    const auto padded = src[i + 2] + w.pad_begin[i] + w.pad_end[i];
    if (src[i + 2] < 1 || padded < reach)
      refuse(
          "{}: the kernel reaches over {} elements in spatial dim {}, but the input {} has {} there (with padding); "
          "use a larger "
          "input, a smaller kernel, padding, or fewer strided layers before this one",
          op, reach, i, to_string(src), padded);
    positions.push_back((padded - reach) / w.stride[i] + 1);
  }
  return positions;
}

}  // namespace keelson::ops
