#include "backends/kokkos/pool/unpool.hpp"

#include "backends/kokkos/common/values.hpp"
#include "backends/kokkos/pool/conv_max_pool_geometry.hpp"

namespace keelson::kokkos {

namespace {

/// Planes of the gradient of the convolution's result, from the pooled gradient: zero except for the maxima of the
/// windows. An item writes a row.
template <class T>
struct Unpool {
  const float* diff;
  const ArgmaxIndex* argmax;
  Index filters, first_sample, first_plane, first_row;
  Triple window, windows, extent;  ///< extent: planes of a sample in `to`, rows, columns
  T* to;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index n = item / (extent[1] * extent[0]);
    const Index plane = first_plane + item / extent[1] % extent[0], h = first_row + item % extent[1];
    const Index wd = plane / window[0], wh = h / window[1];
    T* row = to + item * extent[2] * filters;
    const bool covered = wd < windows[0] && wh < windows[1];
    const Index first = (((first_sample + n) * windows[0] + wd) * windows[1] + wh) * windows[2];
    const Index index = (plane % window[0] * window[1] + h % window[1]) * window[2];
    for (Index w = 0; w < extent[2]; ++w, row += filters) {
      const Index ww = w / window[2];
      if (covered && ww < windows[2])
        scatter((first + ww) * filters, static_cast<ArgmaxIndex>(index + w % window[2]), row);
      else
        for (Index c = 0; c < filters; ++c) row[c] = T{};
    }
  }
  KOKKOS_FUNCTION void scatter(Index at, ArgmaxIndex index, T* row) const {
    const float* const x = diff + at;
    const ArgmaxIndex* const a = argmax + at;
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index c = 0; c < filters; ++c) row[c] = stored<T>(a[c] == index ? x[c] : 0.0f);
  }
};

template <class T>
struct Round {
  const float* from;
  T* to;
  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    map_run(begin, end, [](float x) { return x; }, to, from);
  }
};

struct AddArray {
  const float* from;
  float* to;
  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index i = begin; i < end; ++i) to[i] += from[i];
  }
};

}  // namespace

void unpool(const Shape& window, const Tensor& diff, const void* argmax, std::int64_t first_sample,
            std::int64_t first_plane, const TensorDesc& to, void* memory) {
  constexpr const char* label = "keelson::unpool";
  const Volume pooled(diff.shape(), diff.layout()), v(to.shape, to.layout);
  const bool is_flat = to.shape.rank() == 4;  // with two spatial dims, the first is the second of a Volume
  with_type(to.dtype, [&](auto type) {
    using T = decltype(type);
    launch(label, v.n * v.extent[0] * v.extent[1],
           Unpool<T>{diff.data<float>(),
                     static_cast<const ArgmaxIndex*>(argmax),
                     v.c,
                     first_sample,
                     is_flat ? 0 : first_plane,
                     is_flat ? first_plane : 0,
                     three(window, 1),
                     {pooled.extent[0], pooled.extent[1], pooled.extent[2]},
                     {v.extent[0], v.extent[1], v.extent[2]},
                     static_cast<T*>(memory)});
  });
}

void round(const float* from, std::int64_t count, DType type, void* to) {
  constexpr const char* label = "keelson::round";
  with_type(type, [&](auto t) {
    using T = decltype(t);
    for_each_block(label, count, Round<T>{from, static_cast<T*>(to)});
  });
}

void add(const float* from, std::int64_t count, float* to) {
  constexpr const char* label = "keelson::add";
  for_each_block(label, count, AddArray{from, to});
}

}  // namespace keelson::kokkos
