#include "backends/cuda/pooled_conv.hpp"

#include <algorithm>
#include <type_traits>

#include "backends/cuda/instance.hpp"
#include "backends/cuda/pooled_conv_kernels.hpp"
#include "backends/kokkos/common/instance.hpp"

namespace keelson::cuda {

namespace {

/// Three for each multiprocessor of an H100. A constant, so that sums have the same order on every GPU.
constexpr std::int64_t most_blocks = 3 * 132;

/// Calls use(T(), pairs, filters): the type, the pairs of channels, and 1 or 2 for 16 or 32 filters a block.
template <class Use>
void with_kernel(DType type, const PooledConvShape& s, const Use& use) {
  const auto with_filters = [&](auto value, auto pairs) {
    if (s.filters % 32 == 0)
      use(value, pairs, std::integral_constant<int, 2>());
    else
      use(value, pairs, std::integral_constant<int, 1>());
  };
  const auto with_pairs = [&](auto value) {
    if (s.channels <= 2)
      with_filters(value, std::integral_constant<int, 1>());
    else
      with_filters(value, std::integral_constant<int, 2>());
  };
  if (type == DType::bf16)
    with_pairs(__nv_bfloat16());
  else
    with_pairs(__half());
}

}  // namespace

PooledConv::PooledConv(const ops::ConvParams& conv, const TensorDesc& src, const TensorDesc& dst,
                       std::int64_t src_channels)
    : shape_{}, type_(src.dtype), slope_(slope_of(conv.activation)) {
  const auto number = [](std::int64_t x) { return static_cast<int>(x); };
  shape_.batch = number(src.shape[0]);
  shape_.channels = number(src.shape[1]), shape_.src_channels = number(src_channels);
  shape_.filters = number(dst.shape[1]);
  for (int d = 0; d < 3; ++d) {
    shape_.src[d] = number(src.shape[d + 2]), shape_.windows[d] = number(dst.shape[d + 2]);
    shape_.pad[d] = number(conv.pad_begin[d]);
  }
  const int size[] = {PooledTile::depth, PooledTile::height, PooledTile::width};
  tiles_ = shape_.batch;
  for (int d = 0; d < 3; ++d) {
    shape_.tiles[d] = (shape_.windows[d] + size[d] - 1) / size[d];
    tiles_ *= shape_.tiles[d];
  }
  blocks_ = std::min(tiles_, most_blocks);
}

void PooledConv::forward(const void* src, const void* weights, const float* bias, void* dst,
                         std::uint8_t* argmax) const {
  with_kernel(type_, shape_, [&](auto value, auto pairs, auto filters) {
    constexpr int n_tiles = 2 * filters.value;
    const dim3 grid(static_cast<unsigned>(blocks_), static_cast<unsigned>(shape_.filters / (8 * n_tiles)));
    pooled_conv_forward<decltype(value), pairs.value, n_tiles><<<grid, PooledTile::threads, 0, current_stream()>>>(
        shape_, static_cast<int>(tiles_), static_cast<const std::uint16_t*>(src),
        static_cast<const std::uint16_t*>(weights), bias, slope_, static_cast<std::uint16_t*>(dst), argmax);
  });
  kokkos::current_instance().check_launch("keelson::pooled_conv::forward");
}

void PooledConv::sum_weights(const void* src, const void* diff_dst, const std::uint8_t* argmax, float* sums) const {
  with_kernel(type_, shape_, [&](auto value, auto pairs, auto filters) {
    const dim3 grid(static_cast<unsigned>(blocks_), static_cast<unsigned>(shape_.filters / (16 * filters.value)));
    pooled_conv_weights<decltype(value), pairs.value, filters.value>
        <<<grid, PooledTile::threads, 0, current_stream()>>>(shape_, static_cast<int>(tiles_),
                                                             static_cast<const std::uint16_t*>(src),
                                                             static_cast<const std::uint16_t*>(diff_dst), argmax, sums);
  });
  kokkos::current_instance().check_launch("keelson::pooled_conv::sum_weights");
}

}  // namespace keelson::cuda
