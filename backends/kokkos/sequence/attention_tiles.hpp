#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/kokkos/common/tile.hpp"
#include "backends/kokkos/sequence/attention.hpp"

/// Attention on a CPU. A work item takes `own_steps` steps of a head, and goes through the other side of the scores in
/// tiles of `other_steps`. So no more than one tile of the scores exists at a time. An item's own steps are the lanes
/// of vectors: matrices have them as columns, and the other steps as rows. Then no product needs a transposed copy of
/// the other steps, and the softmax of a step needs no sum across lanes.
namespace keelson::kokkos {

inline constexpr int own_steps = 64, other_steps = 48;
static_assert(own_steps % max_lanes == 0);

using OwnColumns = float[widest_head][own_steps];  ///< a head's columns of the own steps
using OwnRows = float[own_steps * widest_head];    ///< the same, transposed
using Scores = float[other_steps][own_steps];
using OtherRows = float[other_steps * widest_head];  ///< a head's columns of the other steps, in rows without gaps

/// `width` rounded up to whole vectors.
inline Index padded(Index width) { return ceil_div(width, max_lanes) * max_lanes; }

/// to[c][r] = from[r][c]; the rows of both are `from_step` and `to_step` apart.
inline void transpose(const float* from, Index from_step, Index rows, Index columns, float* to, Index to_step) {
  for (Index c = 0; c < columns; ++c) {
    Index r = 0;
    for (; r + 4 <= rows; r += 4) {
      const float* at = from + r * from_step + c;
      const float four[4] = {at[0], at[from_step], at[2 * from_step], at[3 * from_step]};
      std::copy_n(four, 4, to + c * to_step + r);
    }
    for (; r < rows; ++r) to[c * to_step + r] = from[r * from_step + c];
  }
}

/// The own steps of an item.
struct OwnTile {
  const AttentionShape& s;
  Head head;
  Index first, count;  ///< steps
  Index lanes;         ///< `count` rounded up to whole vectors

  OwnTile(const AttentionShape& shape, Index tiles, Index item) : s(shape), head(head_of(shape, tiles, item)) {
    first = item * own_steps;
    count = std::min<Index>(own_steps, s.steps - first);
    lanes = ceil_div(count, max_lanes) * max_lanes;
  }

  template <class T>
  void prefetch_head(const T* row) const {
    constexpr Index cache_line = 64 / static_cast<Index>(sizeof(T));
    for (Index c = 0; c < s.width; c += cache_line) prefetch<true>(row + c);
  }
  void clear(OwnColumns& to) const {
    for (Index c = 0; c < s.width; ++c) std::fill_n(to[c], lanes, 0.0f);
  }
  /// Loads rows of `columns` numbers: those of the head, times `factor`, then zeros. Rows behind the last step are
  /// zero.
  template <class T>
  void load_rows(const T* from, Index columns, OwnRows& to, float factor = 1) const {
    for (Index i = 0; i < count; ++i) {
      const T* row = from + head.at(s, first + i);
      prefetch_head(row + s.features());
      KEELSON_INDEPENDENT_ITERATIONS
      for (Index c = 0; c < s.width; ++c) to[i * columns + c] = factor * value_of(row[c]);
      for (Index c = s.width; c < columns; ++c) to[i * columns + c] = 0;
    }
    std::fill(to + count * columns, to + lanes * columns, 0.0f);
  }
  /// Loads columns times `factor`. Columns behind the last step are zero.
  template <class T>
  void load(const T* from, OwnColumns& to, float factor = 1) const {
    OwnRows rows;
    const Index columns = padded(s.width);
    load_rows(from, columns, rows, factor);
    transpose(rows, columns, lanes, s.width, to[0], own_steps);
  }
  template <class T>
  void store(const OwnColumns& from, T* to, float factor = 1) const {
    OwnRows rows;
    const Index columns = padded(s.width);
    transpose(from[0], own_steps, s.width, lanes, rows, columns);
    for (Index i = 0; i < count; ++i) {
      T* row = to + head.at(s, first + i);
      KEELSON_INDEPENDENT_ITERATIONS
      for (Index c = 0; c < s.width; ++c) row[c] = stored<T>(factor * rows[i * columns + c]);
    }
  }
  /// Loads `rows` of the other steps from `at` on, times `factor`.
  template <class T>
  void load_others(const T* from, Index at, Index rows, OtherRows& to, float factor = 1) const {
    for (Index r = 0; r < rows; ++r) {
      const T* row = from + head.at(s, at + r);
      float* copy = to + r * s.width;
      prefetch_head(row + other_steps * s.features());
      KEELSON_INDEPENDENT_ITERATIONS
      for (Index c = 0; c < s.width; ++c) copy[c] = factor * value_of(row[c]);
    }
  }
  /// For queries as own steps: sets the scores of keys that a query does not see.
  void set_later_keys(Index at, Index rows, Scores& scores, float value) const {
    for (Index j = 0; j < rows; ++j)
      for (Index i = 0; i < std::min(lanes, at + j - first); ++i) scores[j][i] = value;
  }
  /// For keys as own steps: sets the scores of queries that do not see a key.
  void set_earlier_queries(Index at, Index rows, Scores& scores, float value) const {
    for (Index j = 0; j < rows; ++j)
      for (Index i = std::max<Index>(0, at + j - first + 1); i < lanes; ++i) scores[j][i] = value;
  }
};

/// A matrix whose element (r, k) is at r row_step + k step.
struct Factor {
  const float* at;
  Index row_step, step;
};

/// dst (+)= a b for `rows` rows of `a` with `depth` columns; `columns` of b and dst, whose rows are `step` apart.
template <bool add, int rows>
void multiply_block(const Factor& a, const float* b, Index depth, float* dst, Index step, Index columns) {
  Index row[rows];
  for (int r = 0; r < rows; ++r) row[r] = r * a.row_step;
  for (Index l = 0; l < columns; l += max_lanes) {
    Lanes<max_lanes> sums[rows] = {};
    if constexpr (add)
      for (int r = 0; r < rows; ++r) sums[r].load(dst + r * step + l);
    multiply<rows, max_lanes>(sums, a.at, row, a.step, b + l, step, depth);
    for (int r = 0; r < rows; ++r) sums[r].store(dst + r * step + l);
  }
}

template <bool add, int most = tile_rows>
void multiply_rows(Factor a, Index rows, const float* b, Index depth, float* dst, Index step, Index columns) {
  for (; rows >= most; rows -= most, a.at += most * a.row_step, dst += most * step)
    multiply_block<add, most>(a, b, depth, dst, step, columns);
  if constexpr (most > 1) multiply_rows<add, most - 1>(a, rows, b, depth, dst, step, columns);
}

/// Products of other steps with own steps, e.g. the scores: (other steps, own steps).
inline void multiply_steps(const OwnTile& own, const OtherRows& others, Index rows, const OwnColumns& columns,
                           Scores& products) {
  multiply_rows<false>({others, own.s.width, 1}, rows, columns[0], own.s.width, products[0], own_steps, own.lanes);
}

/// Adds the other steps times their weights.
inline void add_weighted(const OwnTile& own, const OtherRows& others, Index rows, const Scores& weights,
                         OwnColumns& sums) {
  multiply_rows<true>({others, 1, own.s.width}, own.s.width, weights[0], rows, sums[0], own_steps, own.lanes);
}

/// The softmax of each own step, while its scores come in tiles (Milakov, Gimelshein 2018, arXiv 1805.02867).
struct RunningSoftmax {
  float largest[own_steps], sum[own_steps] = {};
  float before[own_steps];  ///< the last tile's factors for what was added up before

  RunningSoftmax() { std::fill_n(largest, own_steps, -std::numeric_limits<float>::infinity()); }

  /// Makes weights of scores. Returns whether a factor is not 1.
  bool join(Scores& scores, Index rows, Index lanes) {
    float most[own_steps];
    std::copy_n(largest, lanes, most);
    for (Index j = 0; j < rows; ++j)
      for (Index i = 0; i < lanes; ++i)
        most[i] = scores[j][i] > most[i] || scores[j][i] != scores[j][i] ? scores[j][i] : most[i];
    bool changed = false;
    for (Index i = 0; i < lanes; ++i) {
      before[i] = fast_exp(largest[i] - most[i]);
      changed |= before[i] != 1;
      largest[i] = most[i];
      sum[i] *= before[i];
    }
    for (Index j = 0; j < rows; ++j)
      for (Index i = 0; i < lanes; ++i) {
        scores[j][i] = fast_exp(scores[j][i] - most[i]);
        sum[i] += scores[j][i];
      }
    return changed;
  }
};

template <class T>
struct AttendTile {
  AttentionShape s;
  AttentionArrays<T> a;
  Index tiles;  ///< of a head

  void operator()(Index item) const {
    const OwnTile own(s, tiles, item);
    const Index end = s.causal ? own.first + own.count : s.steps;
    OwnColumns query, result;
    OtherRows others;
    Scores scores;
    RunningSoftmax softmax;
    own.load(a.query, query, s.scale);
    own.clear(result);
    for (Index at = 0; at < end; at += other_steps) {
      const Index rows = std::min<Index>(other_steps, end - at);
      own.load_others(a.key, at, rows, others);
      multiply_steps(own, others, rows, query, scores);
      if (s.causal) own.set_later_keys(at, rows, scores, -std::numeric_limits<float>::infinity());
      if (softmax.join(scores, rows, own.lanes))
        for (Index c = 0; c < s.width; ++c)
          for (Index i = 0; i < own.lanes; ++i) result[c][i] *= softmax.before[i];
      if (s.causal) own.set_later_keys(at, rows, scores, 0);
      own.load_others(a.value, at, rows, others);
      add_weighted(own, others, rows, scores, result);
    }
    float inverse[own_steps];
    for (Index i = 0; i < own.lanes; ++i) inverse[i] = 1 / softmax.sum[i];
    for (Index c = 0; c < s.width; ++c)
      for (Index i = 0; i < own.lanes; ++i) result[c][i] *= inverse[i];
    own.store(result, a.dst);
    for (Index i = 0; i < own.count; ++i)
      a.saved[own.head.line(s, own.first + i)] = softmax.largest[i] + std::log(softmax.sum[i]);
  }
};

/// In: scores, and products = dot(diff_dst, value). Out: scores = weights of the softmax, products = gradients of the
/// scores. `saved` and `dots` are functions of a row and a lane.
template <class Saved, class Dots>
void differentiate_scores(Index rows, Index lanes, const Saved& saved, const Dots& dots, Scores& scores,
                          Scores& products) {
  for (Index j = 0; j < rows; ++j) {
    KEELSON_INDEPENDENT_ITERATIONS
    for (Index i = 0; i < lanes; ++i) {
      scores[j][i] = fast_exp(scores[j][i] - saved(j, i));
      products[j][i] = scores[j][i] * (products[j][i] - dots(j, i));
    }
  }
}

template <class T>
struct QueryGradientTile {
  AttentionShape s;
  AttentionArrays<T> a;
  Index tiles;  ///< of a head

  void operator()(Index item) const {
    const OwnTile own(s, tiles, item);
    const Index end = s.causal ? own.first + own.count : s.steps;
    OwnColumns query, diff_dst, result;
    OtherRows others;
    Scores scores, products;
    float saved[own_steps] = {}, dots[own_steps] = {};
    for (Index i = 0; i < own.count; ++i) {
      const Index line = own.head.line(s, own.first + i);
      saved[i] = a.saved[line], dots[i] = a.dots[line];
    }
    own.load(a.query, query, s.scale);
    own.load(a.diff_dst, diff_dst);
    own.clear(result);
    for (Index at = 0; at < end; at += other_steps) {
      const Index rows = std::min<Index>(other_steps, end - at);
      own.load_others(a.value, at, rows, others);
      multiply_steps(own, others, rows, diff_dst, products);
      own.load_others(a.key, at, rows, others);
      multiply_steps(own, others, rows, query, scores);
      differentiate_scores(
          rows, own.lanes, [&](Index, Index i) { return saved[i]; }, [&](Index, Index i) { return dots[i]; }, scores,
          products);
      if (s.causal) own.set_later_keys(at, rows, products, 0);
      add_weighted(own, others, rows, products, result);
    }
    own.store(result, a.diff_query, s.scale);
  }
};

/// The gradients of a tile of keys and of its values. Not null: `query_sums`, to which the tile's part of the gradients
/// of the head's queries is added, before the scale: (steps, padded(width)).
template <class T>
void key_gradients(const OwnTile& own, const AttentionArrays<T>& a, float* query_sums) {
  const AttentionShape& s = own.s;
  const Index columns = padded(s.width);
  OwnColumns key, value, diff_key, diff_value;
  OtherRows query, diff_dst;
  Scores scores, products;
  OwnRows key_rows;
  own.load(a.key, key);
  own.load(a.value, value);
  own.clear(diff_key);
  own.clear(diff_value);
  if (query_sums != nullptr) own.load_rows(a.key, columns, key_rows);
  for (Index at = s.causal ? own.first : 0; at < s.steps; at += other_steps) {
    const Index rows = std::min<Index>(other_steps, s.steps - at);
    own.load_others(a.query, at, rows, query, s.scale);
    multiply_steps(own, query, rows, key, scores);
    own.load_others(a.diff_dst, at, rows, diff_dst);
    multiply_steps(own, diff_dst, rows, value, products);
    const auto line = [&](Index j) { return own.head.line(s, at + j); };
    differentiate_scores(
        rows, own.lanes, [&](Index j, Index) { return a.saved[line(j)]; },
        [&](Index j, Index) { return a.dots[line(j)]; }, scores, products);
    if (s.causal) {
      own.set_earlier_queries(at, rows, scores, 0);
      own.set_earlier_queries(at, rows, products, 0);
    }
    add_weighted(own, diff_dst, rows, scores, diff_value);
    add_weighted(own, query, rows, products, diff_key);
    if (query_sums != nullptr)
      multiply_rows<true>({products[0], own_steps, 1}, rows, key_rows, own.count, query_sums + at * columns, columns,
                          columns);
  }
  own.store(diff_key, a.diff_key);
  own.store(diff_value, a.diff_value);
}

template <class T>
struct KeyGradientTile {
  AttentionShape s;
  AttentionArrays<T> a;
  Index tiles;  ///< of a head
  void operator()(Index item) const { key_gradients(OwnTile(s, tiles, item), a, nullptr); }
};

/// All gradients of a head: scores are made once, not once for the queries and once for the keys.
template <class T>
struct HeadGradients {
  AttentionShape s;
  AttentionArrays<T> a;
  float* query_sums;  ///< (samples, heads, steps, padded(width))

  void operator()(Index item) const {
    const Index columns = padded(s.width), tiles = ceil_div(s.steps, own_steps);
    float* sums = query_sums + item * s.steps * columns;
    std::fill_n(sums, s.steps * columns, 0.0f);
    for (Index tile = 0; tile < tiles; ++tile) key_gradients(OwnTile(s, tiles, item * tiles + tile), a, sums);
    const Head head{item / s.heads, item % s.heads};
    for (Index i = 0; i < s.steps; ++i) {
      T* to = a.diff_query + head.at(s, i);
      for (Index c = 0; c < s.width; ++c) to[c] = stored<T>(s.scale * sums[i * columns + c]);
    }
  }
};

}  // namespace keelson::kokkos
