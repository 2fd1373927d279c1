#pragma once

#include "backends/kokkos/sequence/attention.hpp"

/// Attention on a GPU. A work item takes one step of a head and goes through the other steps one after the other.
/// Neighbouring items read the same steps at the same time. `width` columns at most, in registers or local memory.
namespace keelson::kokkos {

template <class T>
KOKKOS_FORCEINLINE_FUNCTION float dot_of(const T* a, const T* b, Index count) {
  float sum = 0;
  for (Index c = 0; c < count; ++c) sum += value_of(a[c]) * value_of(b[c]);
  return sum;
}

template <class T, int width>
struct AttendStep {
  AttentionShape s;
  AttentionArrays<T> a;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Head head = head_of(s, s.steps, item);
    const Index end = s.causal ? item + 1 : s.steps;
    const T* query = a.query + head.at(s, item);
    float result[width] = {}, largest = s.scale * dot_of(query, a.key + head.at(s, 0), s.width), sum = 0;
    for (Index j = 0; j < end; ++j) {
      const T* value = a.value + head.at(s, j);
      const float score = s.scale * dot_of(query, a.key + head.at(s, j), s.width);
      const float most = score > largest || score != score ? score : largest;
      const float before = Kokkos::exp(largest - most), weight = Kokkos::exp(score - most);
      for (Index c = 0; c < s.width; ++c) result[c] = result[c] * before + weight * value_of(value[c]);
      sum = sum * before + weight;
      largest = most;
    }
    T* to = a.dst + head.at(s, item);
    for (Index c = 0; c < s.width; ++c) to[c] = stored<T>(result[c] / sum);
    a.saved[head.line(s, item)] = largest + Kokkos::log(sum);
  }
};

template <class T, int width>
struct QueryGradientStep {
  AttentionShape s;
  AttentionArrays<T> a;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Head head = head_of(s, s.steps, item);
    const Index end = s.causal ? item + 1 : s.steps, line = head.line(s, item);
    const T *query = a.query + head.at(s, item), *diff_dst = a.diff_dst + head.at(s, item);
    float result[width] = {};
    for (Index j = 0; j < end; ++j) {
      const T* key = a.key + head.at(s, j);
      const float weight = Kokkos::exp(s.scale * dot_of(query, key, s.width) - a.saved[line]);
      const float slope = weight * (dot_of(diff_dst, a.value + head.at(s, j), s.width) - a.dots[line]);
      for (Index c = 0; c < s.width; ++c) result[c] += slope * value_of(key[c]);
    }
    T* to = a.diff_query + head.at(s, item);
    for (Index c = 0; c < s.width; ++c) to[c] = stored<T>(s.scale * result[c]);
  }
};

template <class T, int width>
struct KeyGradientStep {
  AttentionShape s;
  AttentionArrays<T> a;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Head head = head_of(s, s.steps, item);
    const T *key = a.key + head.at(s, item), *value = a.value + head.at(s, item);
    float diff_key[width] = {}, diff_value[width] = {};
    for (Index i = s.causal ? item : 0; i < s.steps; ++i) {
      const T *query = a.query + head.at(s, i), *diff_dst = a.diff_dst + head.at(s, i);
      const Index line = head.line(s, i);
      const float weight = Kokkos::exp(s.scale * dot_of(query, key, s.width) - a.saved[line]);
      const float slope = weight * (dot_of(diff_dst, value, s.width) - a.dots[line]);
      for (Index c = 0; c < s.width; ++c) {
        diff_value[c] += weight * value_of(diff_dst[c]);
        diff_key[c] += slope * value_of(query[c]);
      }
    }
    T *to_key = a.diff_key + head.at(s, item), *to_value = a.diff_value + head.at(s, item);
    for (Index c = 0; c < s.width; ++c) {
      to_key[c] = stored<T>(s.scale * diff_key[c]);
      to_value[c] = stored<T>(diff_value[c]);
    }
  }
};

}  // namespace keelson::kokkos
