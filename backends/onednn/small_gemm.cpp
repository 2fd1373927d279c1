#include "backends/onednn/small_gemm.hpp"

#include <algorithm>

#include "engine/base/align.hpp"

namespace keelson::onednn {
namespace {

using Count = std::int64_t;
constexpr int floats_of_eight = 8, most_rows_at_once = 6;
using Eight [[gnu::vector_size(floats_of_eight * 4), gnu::aligned(4), gnu::may_alias]] = float;

// By reference everywhere: without AVX, how a function takes or returns such a vector depends on the compiler's
// version.
const Eight& eight(const float* p) { return *reinterpret_cast<const Eight*>(p); }
Eight& eight(float* p) { return *reinterpret_cast<Eight*>(p); }

/// to[i * to_row + o] = from[o * from_row + i] for 8 x 8 elements.
void transpose_block(const float* from, Count from_row, float* to, Count to_row) {
  Eight r[8], t[8], u[8];
  for (int i = 0; i < 8; ++i) r[i] = eight(from + i * from_row);
  for (int i = 0; i < 8; i += 2) {
    t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4)
    for (int k = 0; k < 2; ++k) {
      u[i + 2 * k] = __builtin_shufflevector(t[i + k], t[i + 2 + k], 0, 1, 8, 9, 4, 5, 12, 13);
      u[i + 2 * k + 1] = __builtin_shufflevector(t[i + k], t[i + 2 + k], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int i = 0; i < 4; ++i) {
    eight(to + i * to_row) = __builtin_shufflevector(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    eight(to + (i + 4) * to_row) = __builtin_shufflevector(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

/// (columns, depth) -> (depth, padded), zeros behind the last column.
void pack_transposed(const float* from, Count columns, Count depth, Count padded, float* to) {
  const Count whole = columns / 8 * 8, blocks = depth / 8 * 8;
  for (Count o = 0; o < whole; o += 8) {
    for (Count k = 0; k < blocks; k += 8) transpose_block(from + o * depth + k, depth, to + k * padded + o, padded);
    for (Count k = blocks; k < depth; ++k)
      for (Count l = o; l < o + 8; ++l) to[k * padded + l] = from[l * depth + k];
  }
  for (Count k = 0; k < depth && whole < padded; ++k)
    for (Count l = whole; l < padded; ++l) to[k * padded + l] = l < columns ? from[l * depth + k] : 0.0f;
}

void pack_rows(const float* from, Count columns, Count depth, Count padded, float* to) {
  for (Count k = 0; k < depth; ++k, from += columns, to += padded)
    std::fill(std::copy_n(from, columns, to), to + padded, 0.0f);
}

/// What is done with the sums of a tile.
struct SmallEnd {
  const float* bias;
  float alpha;
  void operator()(Eight& x, Count column) const {
    if (bias) x += eight(bias + column);
    if (alpha == 1) return;
    const Eight zero = {}, low = alpha == 0 ? zero : alpha * x;  // 0 times infinity is NaN
    x = x <= 0 ? low : x;                                        // keeps NaN
  }
};

/// `rows` x 8 `vectors` elements of c.
template <int rows, int vectors>
void multiply_small_tile(const SmallGemm& g, const float* a, const float* b, Count b_step, const SmallEnd& end,
                         Count column, Count count, float* c) {
  Eight sum[rows][vectors] = {};
  for (Count k = 0; k < g.depth; ++k) {
    Eight x[vectors];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) x[v] = eight(b + k * b_step + v * floats_of_eight);
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) {
      const float s = a[r * g.a_row + k * g.a_step];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) sum[r][v] += s * x[v];
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      Eight& y = sum[r][v];
      end(y, column + v * floats_of_eight);
      float* const to = c + r * g.columns + v * floats_of_eight;
      if (v * floats_of_eight + floats_of_eight <= count) {
        eight(to) = y;
      } else {
        float part[floats_of_eight];
        eight(part) = y;
        std::copy_n(part, count - v * floats_of_eight, to);
      }
    }
}

template <int vectors>
void multiply_small_rows(const SmallGemm& g, const float* a, const float* b, Count b_step, const SmallEnd& end,
                         Count column, float* c) {
  // Blocks of equal sizes, so that there is no block of few rows, which waits for its own sums.
  const Count blocks = (g.rows + most_rows_at_once - 1) / most_rows_at_once, count = g.columns - column;
  for (Count i = 0, row = 0; i < blocks; ++i) {
    const Count end_row = g.rows * (i + 1) / blocks;
    const float* const from = a + row * g.a_row;
    float* const to = c + row * g.columns + column;
    const auto tile = [&]<int rows>() {
      multiply_small_tile<rows, vectors>(g, from, b + column, b_step, end, column, count, to);
    };
    switch (end_row - row) {
      case 1:
        tile.template operator()<1>();
        break;
      case 2:
        tile.template operator()<2>();
        break;
      case 3:
        tile.template operator()<3>();
        break;
      case 4:
        tile.template operator()<4>();
        break;
      case 5:
        tile.template operator()<5>();
        break;
      default:
        tile.template operator()<6>();
    }
    row = end_row;
  }
}

}  // namespace

std::size_t SmallGemm::packed_bytes() const {
  return packs() ? align64(static_cast<std::size_t>(depth * padded_columns()) * sizeof(float)) : 0;
}

std::size_t SmallGemm::scratch_bytes() const {
  return align64(static_cast<std::size_t>(padded_columns()) * sizeof(float)) + packed_bytes();
}

void SmallGemm::pack(const float* b, float* packed) const {
  if (transposed)
    pack_transposed(b, columns, depth, padded_columns(), packed);
  else if (packs())
    pack_rows(b, columns, depth, padded_columns(), packed);
}

void SmallGemm::run_packed(const float* a, const float* b, float* c) const { multiply(a, b, nullptr, 1, c); }

void SmallGemm::run(const float* a, const float* b, const float* bias, float alpha, float* c, void* scratch) const {
  const Count padded = padded_columns();
  auto* const padded_bias = static_cast<float*>(scratch);
  auto* const packed = reinterpret_cast<float*>(static_cast<std::byte*>(scratch) +
                                                align64(static_cast<std::size_t>(padded) * sizeof(float)));
  if (bias) {
    std::fill(std::copy_n(bias, columns, padded_bias), padded_bias + padded, 0.0f);
    bias = padded_bias;
  }
  pack(b, packed);
  multiply(a, packs() ? packed : b, bias, alpha, c);
}

void SmallGemm::multiply(const float* a, const float* b, const float* bias, float alpha, float* c) const {
  const SmallEnd end{bias, alpha};
  const Count padded = padded_columns();
  Count column = 0;
  for (; column + 2 * floats_of_eight <= padded; column += 2 * floats_of_eight)
    multiply_small_rows<2>(*this, a, b, padded, end, column, c);
  if (column < padded) multiply_small_rows<1>(*this, a, b, padded, end, column, c);
}

}  // namespace keelson::onednn
