#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/kokkos/common/tile.hpp"
#include "backends/kokkos/sequence/attention.hpp"

/// Attention on a CPU. A work item takes `tile_steps` steps of a head, and goes through the other side of the scores in
/// tiles of `other_steps`. So no more than one tile of the scores exists at a time.
namespace keelson::kokkos {

inline constexpr int tile_steps = 16, other_steps = 32;

/// A matrix on the stack: rows of a head's columns, filled up with zeros to a multiple of other_steps.
using StepRows = float[tile_steps][widest_head];
using OtherRows = float[other_steps][widest_head];
using OtherColumns = float[widest_head][other_steps];  ///< transposed: a column for each step
using Scores = float[tile_steps][other_steps];

/// The columns of a head, as the tiles have them.
inline Index padded(Index width) { return ceil_div(width, other_steps) * other_steps; }

/// Loads rows times `factor`. Rows behind the last step are zero.
template <int rows, class T>
void load_steps(const AttentionShape& s, const T* from, Head head, Index first, float (&to)[rows][widest_head],
                float factor = 1) {
  const Index width = padded(s.width);
  for (int r = 0; r < rows; ++r) {
    const Index count = first + r < s.steps ? s.width : 0;
    const T* row = from + (count > 0 ? head.at(s, first + r) : 0);
    for (Index c = 0; c < count; ++c) to[r][c] = factor * value_of(row[c]);
    for (Index c = count; c < width; ++c) to[r][c] = 0;
  }
}

inline void transpose(const AttentionShape& s, const OtherRows& rows, OtherColumns& to) {
  for (Index c = 0; c < s.width; ++c)
    for (int r = 0; r < other_steps; ++r) to[c][r] = rows[r][c];
}

template <class T>
void store_steps(const AttentionShape& s, const StepRows& from, Head head, Index first, T* to, float factor = 1) {
  for (int r = 0; r < tile_steps && first + r < s.steps; ++r) {
    T* row = to + head.at(s, first + r);
    for (Index c = 0; c < s.width; ++c) row[c] = stored<T>(factor * from[r][c]);
  }
}

/// dst (+)= a b for rows of `a` with `count` columns, and `columns` columns of b and dst.
template <bool add, int a_width, int width>
void multiply_tile(const float (&a)[tile_steps][a_width], const float (*b)[width], Index count, Index columns,
                   float (&dst)[tile_steps][width]) {
  constexpr int rows = 4;
  static_assert(tile_steps % rows == 0 && other_steps % max_lanes == 0);
  const Index row[rows] = {0, a_width, 2 * a_width, 3 * a_width};
  for (Index c = 0; c < columns; c += max_lanes)
    for (int r = 0; r < tile_steps; r += rows) {
      Lanes<max_lanes> sums[rows] = {};
      if constexpr (add)
        for (int k = 0; k < rows; ++k) sums[k].load(&dst[r + k][c]);
      multiply<rows, max_lanes>(sums, &a[r][0], row, 1, &b[0][c], width, count);
      for (int k = 0; k < rows; ++k) sums[k].store(&dst[r + k][c]);
    }
}

/// Whether a query's step counts a key's step.
inline bool counts(const AttentionShape& s, Index query, Index key) {
  return query < s.steps && key < s.steps && (!s.causal || key <= query);
}

/// One row of new scores joins the softmax (Milakov, Gimelshein 2018, arXiv 1805.02867). Returns the factor for what
/// was added up before.
inline float join_softmax(float (&score)[other_steps], float& largest, float& sum) {
  constexpr float nothing = -std::numeric_limits<float>::infinity();
  float most = largest;
  for (int j = 0; j < other_steps; ++j) most = score[j] > most || score[j] != score[j] ? score[j] : most;
  if (most == nothing) most = 0;  // no key counts, in rows behind the last step
  float added = 0;
  for (int j = 0; j < other_steps; ++j) {
    const float e = fast_exp(score[j] - most);
    score[j] = score[j] == nothing ? 0.0f : e;
  }
  for (int j = 0; j < other_steps; ++j) added += score[j];
  const float before = largest == nothing ? 0.0f : fast_exp(largest - most);
  largest = most;
  sum = sum * before + added;
  return before;
}

template <class T>
struct AttendTile {
  AttentionShape s;
  AttentionArrays<T> a;
  Index tiles;  ///< of a head

  void operator()(Index item) const {
    constexpr float nothing = -std::numeric_limits<float>::infinity();
    const Head head = head_of(s, tiles, item);
    const Index first = item * tile_steps, end = s.causal ? std::min(s.steps, first + tile_steps) : s.steps;
    StepRows query, result = {};
    OtherRows other;
    OtherColumns keys;
    Scores scores;
    float largest[tile_steps], sum[tile_steps] = {};
    for (float& m : largest) m = nothing;
    load_steps(s, a.query, head, first, query, s.scale);
    for (Index at = 0; at < end; at += other_steps) {
      load_steps(s, a.key, head, at, other);
      transpose(s, other, keys);
      multiply_tile<false>(query, keys, s.width, other_steps, scores);
      load_steps(s, a.value, head, at, other);
      for (int i = 0; i < tile_steps; ++i) {
        for (int j = 0; j < other_steps; ++j)
          if (!counts(s, first + i, at + j)) scores[i][j] = nothing;
        const float before = join_softmax(scores[i], largest[i], sum[i]);
        for (Index c = 0; c < s.width; ++c) result[i][c] *= before;
      }
      multiply_tile<true>(scores, other, other_steps, padded(s.width), result);
    }
    for (int i = 0; i < tile_steps && first + i < s.steps; ++i) {
      const float inverse = 1 / sum[i];
      for (Index c = 0; c < s.width; ++c) result[i][c] *= inverse;
      a.saved[head.line(s, first + i)] = largest[i] + std::log(sum[i]);
    }
    store_steps(s, result, head, first, a.dst);
  }
};

/// Gradients of the scores of a tile: rows of queries and columns of keys, or the reverse. In: scores and products =
/// dot(diff_dst, value). Out: scores = weights of the softmax, products = gradients of the scores.
template <bool rows_are_queries>
void differentiate_scores(const AttentionShape& s, Head head, Index first, Index at, const float* saved,
                          const float* dots, Scores& scores, Scores& products) {
  for (int i = 0; i < tile_steps; ++i)
    for (int j = 0; j < other_steps; ++j) {
      const Index query = rows_are_queries ? first + i : at + j, key = rows_are_queries ? at + j : first + i;
      const bool counted = counts(s, query, key);
      const Index line = head.line(s, counted ? query : 0);
      const float weight = fast_exp(scores[i][j] - saved[line]);
      scores[i][j] = counted ? weight : 0.0f;
      products[i][j] = counted ? weight * (products[i][j] - dots[line]) : 0.0f;
    }
}

template <class T>
struct QueryGradientTile {
  AttentionShape s;
  AttentionArrays<T> a;
  Index tiles;  ///< of a head

  void operator()(Index item) const {
    const Head head = head_of(s, tiles, item);
    const Index first = item * tile_steps, end = s.causal ? std::min(s.steps, first + tile_steps) : s.steps;
    StepRows query, diff_dst, result = {};
    OtherRows other;
    OtherColumns columns;
    Scores scores, products;
    load_steps(s, a.query, head, first, query, s.scale);
    load_steps(s, a.diff_dst, head, first, diff_dst);
    for (Index at = 0; at < end; at += other_steps) {
      load_steps(s, a.value, head, at, other);
      transpose(s, other, columns);
      multiply_tile<false>(diff_dst, columns, s.width, other_steps, products);
      load_steps(s, a.key, head, at, other);
      transpose(s, other, columns);
      multiply_tile<false>(query, columns, s.width, other_steps, scores);
      differentiate_scores<true>(s, head, first, at, a.saved, a.dots, scores, products);
      multiply_tile<true>(products, other, other_steps, padded(s.width), result);
    }
    store_steps(s, result, head, first, a.diff_query, s.scale);
  }
};

template <class T>
struct KeyGradientTile {
  AttentionShape s;
  AttentionArrays<T> a;
  Index tiles;  ///< of a head

  void operator()(Index item) const {
    const Head head = head_of(s, tiles, item);
    const Index first = item * tile_steps;
    StepRows key, value, diff_key = {}, diff_value = {};
    OtherRows query, diff_dst;
    OtherColumns columns;
    Scores scores, products;
    load_steps(s, a.key, head, first, key);
    load_steps(s, a.value, head, first, value);
    for (Index at = s.causal ? first / other_steps * other_steps : 0; at < s.steps; at += other_steps) {
      load_steps(s, a.query, head, at, query, s.scale);
      transpose(s, query, columns);
      multiply_tile<false>(key, columns, s.width, other_steps, scores);
      load_steps(s, a.diff_dst, head, at, diff_dst);
      transpose(s, diff_dst, columns);
      multiply_tile<false>(value, columns, s.width, other_steps, products);
      differentiate_scores<false>(s, head, first, at, a.saved, a.dots, scores, products);
      multiply_tile<true>(scores, diff_dst, other_steps, padded(s.width), diff_value);
      multiply_tile<true>(products, query, other_steps, padded(s.width), diff_key);
    }
    store_steps(s, diff_key, head, first, a.diff_key);
    store_steps(s, diff_value, head, first, a.diff_value);
  }
};

}  // namespace keelson::kokkos
