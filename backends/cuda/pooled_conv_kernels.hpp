#pragma once

#include <cuda_pipeline.h>

#include "backends/cuda/mma.hpp"
#include "backends/cuda/pooled_conv.hpp"

/// The kernels of PooledConv. A block processes tiles of 2 x 4 x 8 windows, that is of 4 x 8 x 16 results of the
/// convolution, for 16 or 32 filters. It copies the elements of src that a tile needs into shared memory, as pairs of
/// channels; while it computes, the copies for its next tile are under way. The warp `w` has the windows with this
/// number along the height.
///
/// The matrix of all windows of the kernel (im2col) is never made: each thread reads its part of a fragment from the
/// tile, at the position of the result plus the offset of the tap.
namespace keelson::cuda {

struct PooledTile {
  static constexpr int depth = 2, height = 4, width = 8;  ///< in windows
  static constexpr int planes = 2 * depth + 2, rows = 2 * height + 2, columns = 2 * width + 2;
  static constexpr int pitch = 20;  ///< positions of a row; so neighbouring rows are in other banks
  static constexpr int positions = planes * rows * pitch, windows = depth * height * width;
  static constexpr int threads = 32 * height;
  static constexpr int taps = 27;

  int sample, at[3];  ///< the tile's place

  __device__ PooledTile(const PooledConvShape& s, int number) {
    at[2] = number % s.tiles[2], number /= s.tiles[2];
    at[1] = number % s.tiles[1], number /= s.tiles[1];
    at[0] = number % s.tiles[0], sample = number / s.tiles[0];
  }
  /// Moves on by as many tiles as there are before the tile `step`: divisions take long.
  __device__ void advance(const PooledConvShape& s, const PooledTile& step) {
    int carry = 0;
    for (int d = 2; d >= 0; --d) {
      at[d] += step.at[d] + carry;
      carry = at[d] >= s.tiles[d] ? 1 : 0;
      at[d] -= carry * s.tiles[d];
    }
    sample += step.sample + carry;
  }
  /// A window of the tile, by its place in the sample.
  __device__ int d(int number) const { return at[0] * depth + number; }
  __device__ int h(int number) const { return at[1] * height + number; }
  __device__ int w(int number) const { return at[2] * width + number; }
  __device__ bool has(const PooledConvShape& s, int z, int y, int x) const {
    return d(z) < s.windows[0] && h(y) < s.windows[1] && w(x) < s.windows[2];
  }
  __device__ std::int64_t number(const PooledConvShape& s, int z, int y, int x) const {
    return ((static_cast<std::int64_t>(sample) * s.windows[0] + d(z)) * s.windows[1] + h(y)) * s.windows[2] + w(x);
  }
};

/// Where the pair of channels number p = tap * pairs + pair is, from the position of a result.
template <int pairs>
__device__ int offset_of_pair(int p) {
  const int tap = p / pairs;
  return ((tap / 9 * PooledTile::rows + tap / 3 % 3) * PooledTile::pitch + tap % 3) * pairs + p % pairs;
}

template <int pairs>
__device__ int word_of_position(int plane, int row, int column) {
  return ((plane * PooledTile::rows + row) * PooledTile::pitch + column) * pairs;
}

/// Two channels as one word; channels that src does not have are zero.
__device__ inline std::uint32_t two_channels(const std::uint16_t* x, int first, int channels) {
  const std::uint32_t low = first < channels ? x[first] : 0, high = first + 1 < channels ? x[first + 1] : 0;
  return low | high << 16;
}

/// Starts to copy the part of src that the tile needs; positions outside of src become zero. Each warp copies some rows
/// of every plane.
template <int pairs>
__device__ void copy_src(const PooledConvShape& s, const std::uint16_t* src, const PooledTile& tile,
                         std::uint32_t* words) {
  constexpr int warps = PooledTile::threads / 32, bytes = 4 * pairs;
  const int column = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int z = 2 * tile.d(0) - s.pad[0], x = 2 * tile.w(0) - s.pad[2] + column, plane_size = s.src[1] * s.src[2];
  const bool whole = s.channels == 2 * pairs && s.src_channels % (2 * pairs) == 0;
  if (column >= PooledTile::columns) return;
  const std::uint16_t* sample = src + static_cast<std::int64_t>(tile.sample) * s.src[0] * plane_size * s.src_channels;
#pragma unroll
  for (int row = 0; row < PooledTile::rows; row += warps) {
    if (row + warp >= PooledTile::rows) break;
    const int y = 2 * tile.h(0) - s.pad[1] + row + warp;
    const bool row_inside = y >= 0 && y < s.src[1] && x >= 0 && x < s.src[2];
    const int offset = ((z * s.src[1] + y) * s.src[2] + x) * s.src_channels;  // of the first plane, perhaps before src
    std::uint32_t* to = words + ((row + warp) * PooledTile::pitch + column) * pairs;
#pragma unroll
    for (int plane = 0; plane < PooledTile::planes; ++plane, to += PooledTile::rows * PooledTile::pitch * pairs) {
      const bool inside = row_inside && z + plane >= 0 && z + plane < s.src[0];
      const std::uint16_t* from = sample + (inside ? offset + plane * plane_size * s.src_channels : 0);
      if (whole)
        __pipeline_memcpy_async(to, from, bytes, inside ? 0 : bytes);
      else
        for (int p = 0; p < pairs; ++p) to[p] = inside ? two_channels(from, 2 * p, s.channels) : 0;
    }
  }
}

/// Calls copy(tile, buffer) and compute(tile, buffer) for the block's tiles, with two buffers in turn.
template <class Copy, class Compute>
__device__ void for_tiles(const PooledConvShape& s, int tiles, const Copy& copy, const Compute& compute) {
  const int first = static_cast<int>(blockIdx.x), count = static_cast<int>(gridDim.x);
  const PooledTile step(s, count);
  PooledTile next(s, first);
  if (first < tiles) copy(next, 0);
  __pipeline_commit();
  int buffer = 0;
  for (int number = first; number < tiles; number += count, buffer ^= 1) {
    const PooledTile tile = next;
    next.advance(s, step);
    if (number + count < tiles) copy(next, buffer ^ 1);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    compute(tile, buffer);
    __syncthreads();
  }
}

/// The lowest byte of each of 4 words.
__device__ inline std::uint32_t lowest_bytes(const std::uint32_t (&x)[4]) {
  return lower_halves(__byte_perm(x[0], x[1], 0x0040), __byte_perm(x[2], x[3], 0x0040));
}

/// The maxima of a window for 2 * n_tiles neighbouring filters, and their indices. sum[j / 2][i / 2][j % 2 * 2 + i % 2]
/// is the result j of the window for the filter i. The last 3 of a result's 24 bits are replaced by its index, so that
/// a maximum has it: results that differ in these bits alone count as equal. An infinite result becomes NaN.
template <class T, int n_tiles>
__device__ void store_maxima(const float (&sum)[4][n_tiles][4], const float* bias, float slope, std::uint16_t* dst,
                             std::uint8_t* argmax) {
  constexpr std::uint32_t last_bits = 7;
#pragma unroll
  for (int n = 0; n < n_tiles; n += 2) {
    float values[4];
    std::uint32_t largest[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto with_index = [&](int j) {
        const auto bits = __float_as_uint(sum[j / 2][n + i / 2][j % 2 * 2 + i % 2]);
        return __uint_as_float((bits & ~last_bits) | (last_bits - j));  // so the first of equal positive ones wins
      };
      float best = with_index(0);
#pragma unroll
      for (int j = 1; j < 8; ++j) best = larger_or_nan(best, with_index(j));
      largest[i] = __float_as_uint(best);
      const float v = __uint_as_float(largest[i] & ~last_bits) + (bias ? bias[2 * n + i] : 0.0f);
      values[i] = v < 0 ? slope * v : v;
    }
    reinterpret_cast<uint2*>(dst)[n / 2] =
        make_uint2(rounded_pair(values[0], values[1], T()), rounded_pair(values[2], values[3], T()));
    if (argmax) reinterpret_cast<std::uint32_t*>(argmax)[n / 2] = ~lowest_bytes(largest) & 0x07070707;
  }
}

/// The weights of a block's filters, in the order in which multiply_add() reads them: column g of the product n is the
/// filter 2 * n_tiles * (g / 2) + 2 n + g % 2, so that the results of a thread are neighbours.
template <int pairs, int n_tiles>
struct PooledWeights {
  static constexpr int count = PooledTile::taps * pairs, steps = (count + 7) / 8, filters = 8 * n_tiles;
  uint2 parts[steps][n_tiles][32];  ///< by step, product, lane

  /// weights: (filters, taps, channels). `raw`: memory for them in shared memory.
  __device__ void load(const std::uint16_t* weights, int channels, std::uint32_t* raw) {
    const int threads = PooledTile::threads, thread = static_cast<int>(threadIdx.x);
    for (int i = thread; i < filters * PooledTile::taps * channels / 2; i += threads)
      raw[i] = reinterpret_cast<const std::uint32_t*>(weights)[i];
    __syncthreads();
    const auto* values = reinterpret_cast<const std::uint16_t*>(raw);
    for (int i = thread; i < steps * n_tiles * 32; i += threads) {
      const int lane = i % 32, n = i / 32 % n_tiles, step = i / (32 * n_tiles), g = lane / 4;
      const int f = 2 * n_tiles * (g / 2) + 2 * n + g % 2, p = step * 8 + lane % 4;
      const auto part = [&](int pair) {
        if (pair >= count) return 0u;
        return two_channels(values + (f * PooledTile::taps + pair / pairs) * channels, pair % pairs * 2, channels);
      };
      parts[step][n][lane] = make_uint2(part(p), part(p + 4));
    }
    __syncthreads();
  }
};

/// dst = the largest of each window's results of the convolution, plus bias, with the activation; argmax = its index.
/// `n_tiles`: a block has 8 * n_tiles filters. The rows of a product are the results of 8 neighbouring windows along w:
/// rows 0 to 7 the left ones, rows 8 to 15 the right ones, in one of 4 products for the windows' (d, h). So each thread
/// has all results of one window for 2 * n_tiles neighbouring filters.
template <class T, int pairs, int n_tiles>
__global__ void __launch_bounds__(PooledTile::threads, 3)
    pooled_conv_forward(PooledConvShape s, int tiles, const std::uint16_t* src, const std::uint16_t* weights,
                        const float* bias, float slope, std::uint16_t* dst, std::uint8_t* argmax) {
  using Weights = PooledWeights<pairs, n_tiles>;
  constexpr int count = Weights::count, steps = Weights::steps;
  __shared__ Weights of;
  struct alignas(16) Buffer {
    std::uint32_t words[PooledTile::positions * pairs];
  };
  __shared__ Buffer buffers[2];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int g = lane / 4, t = lane % 4, first = static_cast<int>(blockIdx.y) * Weights::filters;
  of.load(weights + static_cast<std::int64_t>(first) * PooledTile::taps * s.channels, s.channels, buffers[0].words);

  int offset[steps][2];
#pragma unroll
  for (int step = 0; step < steps; ++step)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int p = step * 8 + half * 4 + t;
      offset[step][half] = p < count ? offset_of_pair<pairs>(p) : 0;
    }
  // The elements of src for the products of a step. The last step has a rest.
  const auto load = [&](const std::uint32_t* at, int step, std::uint32_t (&a)[4][4]) {
#pragma unroll
    for (int m = 0; m < 4; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const bool there = step * 8 + half * 4 + t < count;
        const std::uint32_t* left = at + word_of_position<pairs>(m / 2, m % 2, 0) + offset[step][half];
        a[m][2 * half] = there ? left[0] : 0;
        a[m][2 * half + 1] = there ? left[pairs] : 0;
      }
  };
  const auto compute = [&](const PooledTile& tile, int buffer) {
#pragma unroll 1
    for (int d = 0; d < PooledTile::depth; ++d) {
      const std::uint32_t* at = buffers[buffer].words + word_of_position<pairs>(2 * d, 2 * warp, 2 * g);
      float sum[4][n_tiles][4] = {};
#pragma unroll
      for (int step = 0; step < steps; ++step) {
        std::uint32_t a[4][4];
        load(at, step, a);
#pragma unroll
        for (int n = 0; n < n_tiles; ++n) {
          const uint2 both = of.parts[step][n][lane];
          const std::uint32_t b[2] = {both.x, both.y};
#pragma unroll
          for (int m = 0; m < 4; ++m) multiply_add<T>(sum[m][n], a[m], b);
        }
      }
      if (tile.has(s, d, warp, g)) {
        const int f = first + 2 * n_tiles * t;
        const std::int64_t to = tile.number(s, d, warp, g) * s.filters + f;
        store_maxima<T>(sum, bias ? bias + f : nullptr, slope, dst + to, argmax ? argmax + to : nullptr);
      }
      __syncwarp();
    }
  };
  for_tiles(
      s, tiles, [&](const PooledTile& tile, int buffer) { copy_src<pairs>(s, src, tile, buffers[buffer].words); },
      compute);
}

/// The gradients and argmax indices of the windows of a tile, for 16 * m_tiles filters. Windows that are not there have
/// a gradient of zero.
template <int m_tiles>
struct PooledGradients {
  static constexpr int filters = 16 * m_tiles;
  std::uint32_t diff[PooledTile::windows * filters / 2];
  std::uint32_t argmax[PooledTile::windows * filters / 4];

  /// Starts to copy them. A thread copies half of the filters of a window.
  __device__ void copy(const PooledConvShape& s, const std::uint16_t* from, const std::uint8_t* indices, int first,
                       const PooledTile& tile) {
    constexpr int each = filters / 2;
    const int window = static_cast<int>(threadIdx.x) / 2, half = static_cast<int>(threadIdx.x) % 2;
    const int w = window % PooledTile::width, h = window / PooledTile::width % PooledTile::height,
              d = window / (PooledTile::width * PooledTile::height);
    const bool there = tile.has(s, d, h, w);
    const std::int64_t at = (there ? tile.number(s, d, h, w) : 0) * s.filters + first + half * each;
    const int to = window * filters + half * each;
#pragma unroll
    for (int i = 0; i < each; i += 8) __pipeline_memcpy_async(diff + (to + i) / 2, from + at + i, 16, there ? 0 : 16);
    __pipeline_memcpy_async(argmax + to / 4, indices + at, each, there ? 0 : each);
  }
};

/// The lower (r = 0) or upper half of `both`, in the lower half of the result if place is 0, in the upper half if place
/// is 1; else 0.
__device__ inline std::uint32_t half_at(std::uint32_t both, int r, std::uint32_t place) {
  // Bytes 4 to 7 are those of `both`. The shift leaves the selector of the place, or 0.
  const std::uint32_t selectors = r == 0 ? 0x54000054 : 0x76000076;
  return __byte_perm(0, both, __funnelshift_rc(selectors, 0, 16 * place));
}

/// The sums of each block: sums[block][tap][channel][filter] = sum over the block's windows of diff[window][filter] *
/// src[position of the maximum + tap][channel]. The rows of a product are filters, its columns 8 pairs (tap, pair of
/// channels), of which two products have the even and the odd channels; the sum runs over the 16 results of two
/// neighbouring windows. Of a window's 8 results one has a gradient per filter, and the others are zero.
template <class T, int pairs, int m_tiles>
__global__ void __launch_bounds__(PooledTile::threads, 3)
    pooled_conv_weights(PooledConvShape s, int tiles, const std::uint16_t* src, const std::uint16_t* diff_dst,
                        const std::uint8_t* argmax, float* sums) {
  constexpr int count = PooledTile::taps * pairs, groups = (count + 7) / 8, filters = 16 * m_tiles;
  struct alignas(16) Tile {
    PooledGradients<m_tiles> of;
    std::uint32_t words[PooledTile::positions * pairs];
  };
  union alignas(16) Shared {
    Tile tiles[2];
    float total[2 * count * filters];
  };
  __shared__ Shared shared;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int g = lane / 4, t = lane % 4, first = static_cast<int>(blockIdx.y) * filters;

  int offset[groups];
#pragma unroll
  for (int q = 0; q < groups; ++q) offset[q] = q * 8 + g < count ? offset_of_pair<pairs>(q * 8 + g) : 0;
  float sum[m_tiles][2 * groups][4] = {};

  const auto copy = [&](const PooledTile& tile, int buffer) {
    copy_src<pairs>(s, src, tile, shared.tiles[buffer].words);
    shared.tiles[buffer].of.copy(s, diff_dst, argmax, first, tile);
  };
  const auto compute = [&](const PooledTile&, int buffer) {
    const Tile& in = shared.tiles[buffer];
#pragma unroll 1
    for (int two = 0; two < PooledTile::depth * PooledTile::width / 2; ++two) {
      const int d = two / (PooledTile::width / 2), w = two % (PooledTile::width / 2) * 2;
      const int window = (d * PooledTile::height + warp) * PooledTile::width + w;
      std::uint32_t a[m_tiles][4];
#pragma unroll
      for (int v = 0; v < 2; ++v) {
        // The filters 2 * m_tiles * g + 2 m + r are rows g + 8 r of the product m.
        const int at = (window + v) * filters + 2 * m_tiles * g;
        // Per filter a byte: 0 or 1 if the maximum is this thread's left or right result.
        const std::uint32_t index = (in.of.argmax[at / 4] >> (at % 4 * 8)) ^ 0x02020202 * t;
#pragma unroll
        for (int m = 0; m < m_tiles; ++m)
#pragma unroll
          for (int r = 0; r < 2; ++r)
            a[m][2 * v + r] = half_at(in.of.diff[at / 2 + m], r, index >> 8 * (2 * m + r) & 255);
      }
      // Rows 2t and 2t + 1 are the results with (d, h) = (t / 2, t % 2) of the window: neighbours along w.
      const std::uint32_t* at = in.words + word_of_position<pairs>(2 * d + t / 2, 2 * warp + t % 2, 2 * w);
#pragma unroll
      for (int q = 0; q < groups; ++q) {
        std::uint32_t even[2], odd[2];
#pragma unroll
        for (int v = 0; v < 2; ++v) {
          const std::uint32_t left = at[offset[q] + 2 * v * pairs], right = at[offset[q] + (2 * v + 1) * pairs];
          even[v] = lower_halves(left, right), odd[v] = upper_halves(left, right);
        }
#pragma unroll
        for (int m = 0; m < m_tiles; ++m) {
          multiply_add<T>(sum[m][2 * q], a[m], even);
          multiply_add<T>(sum[m][2 * q + 1], a[m], odd);
        }
      }
    }
  };
  for_tiles(s, tiles, copy, compute);

  // The warps add in order.
  for (int turn = 0; turn < PooledTile::threads / 32; ++turn) {
    __syncthreads();
    if (warp != turn) continue;
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
#pragma unroll
      for (int n = 0; n < 2 * groups; ++n)
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const int p = n / 2 * 8 + 2 * t + r % 2, channel = p % pairs * 2 + n % 2;
          if (p >= count) continue;
          float& to = shared.total[(p / pairs * 2 * pairs + channel) * filters + 2 * m_tiles * g + 2 * m + r / 2];
          to = turn == 0 ? sum[m][n][r] : to + sum[m][n][r];
        }
  }
  __syncthreads();
  float* to = sums + static_cast<std::int64_t>(blockIdx.x) * PooledTile::taps * s.channels * s.filters;
  for (int i = static_cast<int>(threadIdx.x); i < PooledTile::taps * s.channels * filters; i += PooledTile::threads) {
    const int f = i % filters, c = i / filters % s.channels, tap = i / (filters * s.channels);
    to[(tap * s.channels + c) * s.filters + first + f] = shared.total[(tap * 2 * pairs + c) * filters + f];
  }
}

}  // namespace keelson::cuda
