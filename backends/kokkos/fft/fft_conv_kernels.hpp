#pragma once

#include "backends/kokkos/conv/conv_geometry.hpp"
#include "backends/kokkos/elementwise/eltwise_math.hpp"
#include "backends/kokkos/fft/fft_tile.hpp"

/// Kernels of convolutions by Fourier transforms of tiles, for CPUs. A panel is a vector of channels.
namespace keelson::kokkos {

/// Images with contiguous channels, of f32 or bf16.
template <class T>
struct FftImages {
  const T* data;
  Index channels, rows, columns;
  Index step_n, step_row, step_column;
  Index size;  ///< elements up to the last one

  FftImages(const Volume& v, const T* d)
      : data(d),
        channels(v.c),
        rows(v.extent[1]),
        columns(v.extent[2]),
        step_n(v.stride_n),
        step_row(v.stride[1]),
        step_column(v.stride[2]),
        size(at(v.n - 1, rows - 1, columns - 1) + channels) {}
  KOKKOS_FUNCTION Index at(Index n, Index row, Index column) const {
    return n * step_n + row * step_row + column * step_column;
  }
};

/// The tiles of a convolution: each has results[0] x results[1] results, and reads 16 x 16 elements.
struct FftGrid {
  Index n, rows, columns;  ///< of the results
  Index taps[2], pad[2];
  Index results[2], tiles[2], count;

  FftGrid(Index images, Index of_rows, Index of_columns, const Triple& kernel, const Triple& padding)
      : n(images), rows(of_rows), columns(of_columns), taps{kernel[1], kernel[2]}, pad{padding[1], padding[2]} {
    for (int d = 0; d < 2; ++d) results[d] = fft_points + 1 - taps[d];
    tiles[0] = ceil_div(rows, results[0]), tiles[1] = ceil_div(columns, results[1]);
    count = n * tiles[0] * tiles[1];
  }
};

/// The first result of a tile.
struct FftPosition {
  Index image, row, column;

  KOKKOS_FUNCTION FftPosition(const FftGrid& g, Index tile)
      : image(tile / (g.tiles[0] * g.tiles[1])),
        row(tile / g.tiles[1] % g.tiles[0] * g.results[0]),
        column(tile % g.tiles[1] * g.results[1]) {}
};

/// How far the elements of the next tile are from those of `tile`.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION Index to_next_tile(const FftImages<T>& images, const FftGrid& g, Index tile) {
  const FftPosition a(g, tile), b(g, tile + 1);
  return images.at(b.image - a.image, b.row - a.row, b.column - a.column);
}

/// A vector of channels, of which `valid` exist; what lies behind them can be read if it is before `end`.
template <class V, class T>
KOKKOS_FORCEINLINE_FUNCTION V load_channels(const T* from, Index valid, const T* end) {
  if (valid >= vector_width) return load<V>(from);
  if (from + vector_width <= end) return first_lanes(load<V>(from), valid);
  float some[vector_width] = {};
  for (Index l = 0; l < valid; ++l) some[l] = value_of(from[l]);
  return load<V>(some);
}
template <class V>
KOKKOS_FORCEINLINE_FUNCTION void store_channels(const V& v, float* to, Index valid) {
  if (valid >= vector_width) return store(v, to);
  float some[vector_width];
  store(v, some);
  constexpr Index together = 4;  // make_fft_conv() refuses channels that are no multiple
  for (Index c = 0; c < valid; c += together) {
    KEELSON_UNROLL
    for (int l = 0; l < together; ++l) to[c + l] = some[c + l];
  }
}

/// Spectra of some tiles, or of filters: slot s of item i and channel c has its real part at s * slot + i * item + c,
/// the imaginary part `part` behind.
struct Spectra {
  float* data;
  Index slot, item, part;
};

/// Writes the spectrum of `extent` elements from (row, column) on, channels [first, first + valid) of an image. What is
/// outside of the image is zero. `conjugate`: of the spectrum. Elements `next` behind those read are prefetched, half
/// of them while rows are transformed: vectors of channels lie far apart, and the kernel would wait for them.
template <bool conjugate = false, class T>
KOKKOS_FUNCTION void write_spectrum(const FftImages<T>& from, Index image, Index row, Index column,
                                    const int (&extent)[2], Index first, Index valid, Index next, float* to,
                                    const Spectra& layout) {
  using V = Channels<vector_width>;
  FftRows<V> t;
  const T* const ahead = from.data + from.at(image, row, column) + first + next;
  const Index begin = column < 0 ? -column : 0,
              end = from.columns - column < extent[1] ? from.columns - column : extent[1];
  transform_rows(t, extent[0], [&](int h, V* x) {
    const bool inside = row + h >= 0 && row + h < from.rows;
    const T* const line = from.data + from.at(image, row + h, column) + first;
    if (h % 2 == 0)
      for (int w = 0; w < fft_points; ++w) prefetch<true>(ahead + h / 2 * from.step_row + w * from.step_column);
    for (int w = 0; w < fft_points; ++w)
      x[w] = inside && w >= begin && w < end
                 ? load_channels<V>(line + w * from.step_column, valid, from.data + from.size)
                 : V{};
  });
  transform_columns(t, [&](int slot, const V& re, const V& im) {
    float* const at = to + slot * layout.slot;
    const int h = slot / fft_columns, w = slot % fft_columns;
    prefetch<true>(ahead + (fft_columns + w) * from.step_row + h * from.step_column);
    store(re, at);
    store(conjugate && !is_real_pair(slot) ? -im : im, at + layout.part);
  });
}

/// Sums of products of spectra. sum[r] += sum over k < count of a(r, k) b(k), complex numbers; of slots of two real
/// numbers each is multiplied by itself. a(r, k) is at a + r * row_step + k * a_step, b(k) a vector at b + k * b_step.
/// All rows are read, also those without a result. ahead(k) prefetches what comes next.
template <int rows>
struct FftSums {
  using V = Channels<vector_width>;
  V re[rows], im[rows];

  KOKKOS_FORCEINLINE_FUNCTION void load_from(const float* from, Index item, Index part, int valid) {
    KEELSON_UNROLL
    for (int r = 0; r < rows; ++r) {
      re[r] = r < valid ? load<V>(from + r * item) : V{};
      im[r] = r < valid ? load<V>(from + r * item + part) : V{};
    }
  }
  KOKKOS_FORCEINLINE_FUNCTION void clear() {
    KEELSON_UNROLL
    for (int r = 0; r < rows; ++r) re[r] = V{}, im[r] = V{};
  }
  KOKKOS_FORCEINLINE_FUNCTION void store_to(float* to, Index item, Index part, int valid) const {
    for (int r = 0; r < valid; ++r) store(re[r], to + r * item), store(im[r], to + r * item + part);
  }
  template <int row_step, class Ahead>
  KOKKOS_FORCEINLINE_FUNCTION void add(const float* a, Index a_part, Index a_step, const float* b, Index b_part,
                                       Index b_step, Index count, bool real_pair, const Ahead& ahead) {
    if (real_pair)
      for (Index k = 0; k < count; ++k) {
        ahead(k);
        const V br = load<V>(b + k * b_step), bi = load<V>(b + k * b_step + b_part);
        KEELSON_UNROLL
        for (int r = 0; r < rows; ++r) {
          const float* const from = a + k * a_step + r * row_step;
          re[r] += from[0] * br, im[r] += from[a_part] * bi;
        }
      }
    else
      for (Index k = 0; k < count; ++k) {
        ahead(k);
        const V br = load<V>(b + k * b_step), bi = load<V>(b + k * b_step + b_part);
        KEELSON_UNROLL
        for (int r = 0; r < rows; ++r) {
          const float* const from = a + k * a_step + r * row_step;
          const float ar = from[0], ai = from[a_part];
          re[r] += ar * br;
          im[r] += ar * bi;
          re[r] -= ai * bi;
          im[r] += ai * br;
        }
      }
  }
};

/// The most channels whose spectra are made at a time.
inline constexpr int fft_most_channels = 4 * vector_width;

/// Rows of FftSums that fill the registers, and fewer for the last rows.
inline constexpr int fft_rows = vector_width == 16 ? 12 : 6, fft_few_rows = fft_rows / 3;

/// Calls use(std::integral_constant<int, rows>, first, valid) for all rows below `count`.
template <class Use>
KOKKOS_FORCEINLINE_FUNCTION void by_rows(Index count, const Use& use) {
  for (Index first = 0; first < count;) {
    const Index left = count - first;
    if (left > 2 * fft_few_rows) {
      use(std::integral_constant<int, fft_rows>{}, first, static_cast<int>(left < fft_rows ? left : fft_rows));
      first += fft_rows;
    } else {
      use(std::integral_constant<int, fft_few_rows>{}, first,
          static_cast<int>(left < fft_few_rows ? left : fft_few_rows));
      first += fft_few_rows;
    }
  }
}

/// Floats of a slot of the filters' spectra.
KOKKOS_FORCEINLINE_FUNCTION Index fft_filter_floats(Index inner) { return inner * 2 * vector_width; }

/// The filters' spectra, conjugated, of the taps in order or reversed: (panel, slot, channel, part, lane). One work
/// item per panel and channel of the source.
template <class T>
struct FftFilters {
  const T* weights;
  Index inner, columns;                                       ///< channels of the source, and of the result
  Index inner_stride, column_stride, row_stride, tap_stride;  ///< of the weights
  int taps[2];
  float* to;

  KOKKOS_FUNCTION void operator()(Index item) const {
    using V = Channels<vector_width>;
    const Index panel = item / inner, i = item % inner, column = panel * vector_width;
    const Index valid = columns - column < vector_width ? columns - column : vector_width;
    const T* const from = weights + i * inner_stride + column * column_stride;
    FftRows<V> t;
    transform_rows(t, taps[0], [&](int h, V* x) {
      for (int w = 0; w < fft_points; ++w) {
        float line[vector_width] = {};
        if (w < taps[1])
          for (Index l = 0; l < valid; ++l)
            line[l] = fft_scale * value_of(from[h * row_stride + w * tap_stride + l * column_stride]);
        x[w] = load<V>(line);
      }
    });
    float* const at = to + panel * fft_slots * fft_filter_floats(inner) + i * 2 * vector_width;
    transform_columns(t, [&](int slot, const V& re, const V& im) {
      store(re, at + slot * fft_filter_floats(inner));
      store(is_real_pair(slot) ? im : -im, at + slot * fft_filter_floats(inner) + vector_width);
    });
  }
};

/// Results of blocks of tiles: the forward pass, or the gradient of src with reversed taps. One work item per worker,
/// which has its share of all (block, group of panels). A block's spectra are made by some channels of the source at a
/// time.
template <class T>
struct FftTiles {
  using V = Channels<vector_width>;
  FftGrid grid;
  FftImages<T> source;
  FftImages<float> result;
  const float* filters;
  Index panels, groups, workers;
  Index block, chunk;  ///< tiles of a block; channels at a time
  float *scratch, *to;
  const float* bias;
  ops::EltwiseParams activation;

  static constexpr Index gap = 16;  ///< floats between slots, which would share a set of the caches without
  KOKKOS_FUNCTION Index source_slot() const { return block * 2 * chunk + gap; }
  KOKKOS_FUNCTION Index sum_slot() const { return block * 2 * vector_width + gap; }
  KOKKOS_FUNCTION Index panels_of_group() const { return ceil_div(panels, groups); }
  KOKKOS_FUNCTION bool has_one_chunk() const { return source.channels <= chunk; }
  /// Floats of scratch memory for one worker.
  KOKKOS_FUNCTION Index scratch_floats() const {
    return fft_slots * (source_slot() + sum_slot() * (has_one_chunk() ? 1 : panels_of_group()));
  }

  KOKKOS_FUNCTION void operator()(Index worker) const {
    float* const v = scratch + worker * scratch_floats();
    float* const sums = v + fft_slots * source_slot();
    const Index blocks = ceil_div(grid.count, block), works = blocks * groups;
    Index done = -1;  // the block whose only chunk is in v
    for (Index work = works * worker / workers; work < works * (worker + 1) / workers; ++work) {
      const Index first = work / groups * block, count = grid.count - first < block ? grid.count - first : block;
      const Index begin = work % groups * panels / groups, end = (work % groups + 1) * panels / groups;
      for (Index c = 0; c < source.channels; c += chunk) {
        const Index channels = source.channels - c < chunk ? source.channels - c : chunk;
        if (!has_one_chunk() || done != first) transform(first, count, c, channels, v);
        for (Index p = begin; p < end; ++p) {
          float* const of_panel = has_one_chunk() ? sums : sums + (p - begin) * fft_slots * sum_slot();
          multiply(v, p, c, channels, count, of_panel);
          if (has_one_chunk()) finish(first, count, p, of_panel);
        }
      }
      done = first;
      if (has_one_chunk()) continue;
      for (Index p = begin; p < end; ++p) finish(first, count, p, sums + (p - begin) * fft_slots * sum_slot());
    }
  }

  KOKKOS_FUNCTION void transform(Index first, Index count, Index begin, Index channels, float* v) const {
    const Spectra layout{v, source_slot(), 2 * chunk, chunk};
    for (Index t = 0; t < count; ++t) {
      const FftPosition at(grid, first + t);
      const Index next_tile = to_next_tile(source, grid, first + t) - (channels - 1) / vector_width * vector_width;
      for (Index c = 0; c < channels; c += vector_width)
        write_spectrum(source, at.image, at.row - grid.pad[0], at.column - grid.pad[1], {fft_points, fft_points},
                       begin + c, channels - c, c + vector_width < channels ? vector_width : next_tile,
                       v + t * layout.item + c, layout);
    }
  }

  KOKKOS_FUNCTION void multiply(const float* v, Index panel, Index begin, Index channels, Index count,
                                float* sums) const {
    static_assert(fft_most_channels == 4 * vector_width);
    if (chunk == vector_width) return multiply_by<vector_width>(v, panel, begin, channels, count, sums);
    if (chunk == 2 * vector_width) return multiply_by<2 * vector_width>(v, panel, begin, channels, count, sums);
    if (chunk == 3 * vector_width) return multiply_by<3 * vector_width>(v, panel, begin, channels, count, sums);
    multiply_by<fft_most_channels>(v, panel, begin, channels, count, sums);
  }

  /// `width`: the chunk.
  template <int width>
  KOKKOS_FUNCTION void multiply_by(const float* v, Index panel, Index begin, Index channels, Index count,
                                   float* sums) const {
    const Index filter_slot = fft_filter_floats(source.channels);
    for (int slot = 0; slot < fft_slots; ++slot) {
      const float* const a = v + slot * source_slot();
      const float* const b = filters + (panel * fft_slots + slot) * filter_slot + begin * 2 * vector_width;
      by_rows(count, [&](auto rows, Index first, int valid) {
        float* const at = sums + slot * sum_slot() + first * 2 * vector_width;
        FftSums<rows.value> sum;
        if (begin > 0)
          sum.load_from(at, 2 * vector_width, vector_width, valid);
        else
          sum.clear();
        sum.template add<2 * width>(a + first * 2 * width, width, 1, b, vector_width, 2 * vector_width, channels,
                                    is_real_pair(slot), [&](Index k) {
                                      const float* const next = b + filter_slot + k * 2 * vector_width;
                                      prefetch<true>(next), prefetch<true>(next + vector_width);
                                    });
        sum.store_to(at, 2 * vector_width, vector_width, valid);
      });
    }
  }

  KOKKOS_FUNCTION void finish(Index first, Index count, Index panel, const float* sums) const {
    const Index channel = panel * vector_width;
    const Index valid = result.channels - channel < vector_width ? result.channels - channel : vector_width;
    V add{};
    if (bias) add = load_channels<V>(bias + channel, valid, bias + result.channels);
    for (Index t = 0; t < count; ++t) {
      FftRows<V> x;
      const float* const from = sums + t * 2 * vector_width;
      const FftPosition at(grid, first + t);
      const int rows = static_cast<int>(grid.rows - at.row < grid.results[0] ? grid.rows - at.row : grid.results[0]);
      const int columns =
          static_cast<int>(grid.columns - at.column < grid.results[1] ? grid.columns - at.column : grid.results[1]);
      float* const corner = to + result.at(at.image, at.row, at.column) + channel;
      inverse_columns(x, [&](int slot, V& re, V& im) {
        const int w = slot / fft_columns, h = slot % fft_columns;
        if (w < columns) {
          float* const element = corner + h * result.step_row + w * result.step_column;
          if (h < rows) prefetch_to_write(element);
          if (fft_columns + h < rows) prefetch_to_write(element + fft_columns * result.step_row);
        }
        re = load<V>(from + slot * sum_slot()), im = load<V>(from + slot * sum_slot() + vector_width);
      });
      inverse_rows(x, rows, [&](int h, V* row) {
        activate(row, columns, add);
        float* const line = to + result.at(at.image, at.row + h, at.column) + channel;
        for (int w = 0; w < columns; ++w) store_channels(row[w], line + w * result.step_column, valid);
      });
    }
  }

  KOKKOS_FUNCTION void activate(V* row, int columns, const V& add) const {
    if (activation.kind == ops::EltwiseKind::identity && !bias) return;
    with_function(activation.kind, [&](auto f) {
      const ops::EltwiseParams params = activation;
      for (int w = 0; w < columns; ++w) {
        row[w] += add;
        float* const lane = reinterpret_cast<float*>(row + w);
        KEELSON_KEEP_LOOP
        for (int l = 0; l < vector_width; ++l) lane[l] = decltype(f)::value(params, lane[l]);
      }
    });
  }
};

/// Spectra of src and of the gradient of dst, conjugated, of a block of tiles. One work item per tile.
struct FftGradients {
  FftGrid grid;
  FftImages<float> source, gradient;
  Spectra v, d;
  Index first;

  KOKKOS_FUNCTION void operator()(Index t) const {
    const FftPosition at(grid, first + t);
    const auto next = [&](const FftImages<float>& images, Index c) {
      return c + vector_width < images.channels ? vector_width : to_next_tile(images, grid, first + t) - c;
    };
    for (Index c = 0; c < source.channels; c += vector_width)
      write_spectrum(source, at.image, at.row - grid.pad[0], at.column - grid.pad[1], {fft_points, fft_points}, c,
                     source.channels - c, next(source, c), v.data + t * v.item + c, v);
    const int results[2] = {static_cast<int>(grid.results[0]), static_cast<int>(grid.results[1])};
    for (Index c = 0; c < gradient.channels; c += vector_width)
      write_spectrum<true>(gradient, at.image, at.row, at.column, results, c, gradient.channels - c, next(gradient, c),
                           d.data + t * d.item + c, d);
  }
};

/// Adds a block's products to the sums (slot, panel, source channel, part, lane). One work item per slot and panel.
struct FftWeightSums {
  Spectra v, d;
  Index count, channels, panels;
  bool is_first;  ///< the first block sets the sums
  float* sums;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index slot = item / panels, panel = item % panels;
    const float *const a = v.data + slot * v.slot, *const b = d.data + slot * d.slot + panel * vector_width;
    float* const to = sums + item * channels * 2 * vector_width;
    by_rows(channels, [&](auto rows, Index first, int valid) {
      float* const at = to + first * 2 * vector_width;
      FftSums<rows.value> sum;
      if (is_first)
        sum.clear();
      else
        sum.load_from(at, 2 * vector_width, vector_width, valid);
      sum.template add<1>(a + first, v.part, v.item, b, d.part, d.item, count, is_real_pair(static_cast<int>(slot)),
                          [&](Index k) {
                            const float* const next = a + first + rows.value + k * v.item;
                            prefetch<true>(next), prefetch<true>(next + v.part);
                          });
      sum.store_to(at, 2 * vector_width, vector_width, valid);
    });
  }
};

/// Transforms the sums into the gradient of the weights; one work item per panel and source channel.
struct FftWeights {
  const float* sums;
  Index panels, channels, filters;
  float* weights;
  Index channel_stride, filter_stride, row_stride, tap_stride;
  int taps[2];

  KOKKOS_FUNCTION void operator()(Index item) const {
    using V = Channels<vector_width>;
    const Index panel = item / channels, c = item % channels;
    const Index valid = filters - panel * vector_width < vector_width ? filters - panel * vector_width : vector_width;
    FftRows<V> t;
    inverse_columns(t, [&](int slot, V& re, V& im) {
      const float* const from = sums + ((slot * panels + panel) * channels + c) * 2 * vector_width;
      re = load<V>(from), im = load<V>(from + vector_width);
    });
    float* const to = weights + panel * vector_width * filter_stride + c * channel_stride;
    inverse_rows(t, taps[0], [&](int h, const V* row) {
      for (int w = 0; w < taps[1]; ++w) {
        float lane[vector_width];
        store(row[w], lane);
        for (Index l = 0; l < valid; ++l) to[l * filter_stride + h * row_stride + w * tap_stride] = fft_scale * lane[l];
      }
    });
  }
};

}  // namespace keelson::kokkos
