#pragma once

#include "backends/kokkos/conv/im2col.hpp"

/// The kernels of im2col.hpp for CPUs. A work item processes a line of `out` (elements with neighbouring last
/// coordinates), so that it divides coordinates once per line and tap, not once per value.
namespace keelson::kokkos {

/// In one dim: the coordinate of `in` that a tap of an element of `out` reads, or -1.
KOKKOS_FORCEINLINE_FUNCTION std::int32_t im2col_coordinate(const Im2col& w, int d, std::int32_t element,
                                                           std::int32_t tap) {
  std::int32_t at = element * w.mul[d] + tap * w.step[d] + w.offset[d];
  if (w.div[d] > 1) {
    if (at < 0 || at % w.div[d] != 0) return -1;
    at /= w.div[d];
  }
  return at >= 0 && at < w.in[d] ? at : -1;
}

/// The lines of `in` that a line of `out` reads.
struct Im2colLine {
  const Im2col& w;
  std::int32_t outer, middle;
  Index sample;

  KOKKOS_FORCEINLINE_FUNCTION Im2colLine(const Im2col& windows, Index line)
      : w(windows),
        outer(static_cast<std::int32_t>(line / windows.out[1] % windows.out[0])),
        middle(static_cast<std::int32_t>(line % windows.out[1])),
        sample(line / windows.out[1] / windows.out[0]) {}

  /// Calls use(number of the first tap, first element of the line of `in`, or -1) for each line of taps.
  template <class Use>
  KOKKOS_FORCEINLINE_FUNCTION void for_each_tap_line(const Use& use) const {
    for (std::int32_t a = 0; a < w.taps[0]; ++a)
      for (std::int32_t b = 0; b < w.taps[1]; ++b) {
        const Index x = im2col_coordinate(w, 0, outer, a), y = im2col_coordinate(w, 1, middle, b);
        use((Index{a} * w.taps[1] + b) * w.taps[2],
            x < 0 || y < 0 ? Index{-1} : ((sample * w.in[0] + x) * w.in[1] + y) * w.in[2]);
      }
  }
};

/// im2col() of chunks of some bytes. One work item per line of `out` of which at least one row is asked for.
template <class Chunk>
struct GatherLines {
  Im2col w;
  const Chunk* in;
  Index in_step, chunks;  ///< chunks from one element of `in` to the next; of a tap
  Index first, rows;
  Chunk* matrix;

  Index items() const { return (first + rows - 1) / w.out[2] - first / w.out[2] + 1; }

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index line = first / w.out[2] + item, start = line * w.out[2], row_chunks = w.tap_count() * chunks;
    const auto begin = static_cast<std::int32_t>(first > start ? first - start : 0);
    const auto end = static_cast<std::int32_t>(first + rows - start < w.out[2] ? first + rows - start : w.out[2]);
    Im2colLine(w, line).for_each_tap_line([&](Index tap, Index from) {
      Chunk* const column = matrix + (start - first) * row_chunks + tap * chunks;
      for (std::int32_t q = begin; q < end; ++q) {
        Chunk* to = column + q * row_chunks;
        for (std::int32_t c = 0; c < w.taps[2]; ++c, to += chunks) {
          const std::int32_t at = from < 0 ? -1 : im2col_coordinate(w, 2, q, c);
          for (Index i = 0; i < chunks; ++i) to[i] = at < 0 ? Chunk{} : in[(from + at) * in_step + i];
        }
      }
    });
  }
};

/// sum_taps() of f32 for windows whose `mul` is 1, as those of gradients. One work item per line of `out`.
struct SumTapLines {
  Im2col w;
  const float* matrix;
  Index row_step, channels;
  float* dst;

  KOKKOS_FUNCTION void operator()(Index line) const {
    float* const to = dst + line * w.out[2] * channels;
    for (Index i = 0; i < w.out[2] * channels; ++i) to[i] = 0;
    Im2colLine(w, line).for_each_tap_line([&](Index tap, Index from) {
      if (from < 0) return;
      for (std::int32_t c = 0; c < w.taps[2]; ++c) {
        const float* const column = matrix + from * row_step + (tap + c) * channels;
        std::int32_t q = -w.offset[2] - c * w.step[2];  // the element to which coordinate 0 of `in` adds
        for (std::int32_t at = 0; at < w.in[2]; ++at, q += w.div[2]) {
          if (q < 0 || q >= w.out[2]) continue;
          for (Index k = 0; k < channels; ++k) to[q * channels + k] += column[at * row_step + k];
        }
      }
    });
  }
};

}  // namespace keelson::kokkos
