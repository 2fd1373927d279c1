#include "backends/kokkos/conv/im2col.hpp"

#include <cstdint>
#include <type_traits>

#include "backends/common/divider.hpp"
#include "backends/kokkos/common/values.hpp"
#include "backends/kokkos/conv/im2col_lines.hpp"

namespace keelson::kokkos {

namespace {

/// Values are copied without conversion, as many bytes at once as channels and alignment allow.
struct alignas(16) Bytes16 {
  std::uint64_t halves[2];
};

/// Calls use(Chunk{}) with the widest chunk that divides `run` bytes and for which all addresses are aligned.
template <class Use>
void with_chunk(std::size_t run, std::size_t addresses, const Use& use) {
  const auto all = run | addresses;
  if (all % 16 == 0) return use(Bytes16{});
  if (all % 8 == 0) return use(std::uint64_t{});
  if (all % 4 == 0) return use(std::uint32_t{});
  use(std::uint16_t{});
}

std::size_t address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

/// An item copies one chunk of one tap of one row; the chunks of a row are neighbours. Traffic: the matrix is written
/// once; the tensor is read once, since neighbouring windows share most elements.
template <class Chunk>
struct GatherWindows {
  Im2col w;
  const Chunk* in;
  Index in_step;                    ///< chunks from one element of `in` to the next
  std::uint32_t chunks, tap_count;  ///< chunks of a tap; taps of a window
  Index first;
  Chunk* matrix;

  KOKKOS_FUNCTION void operator()(Index item) const {
    auto rest = static_cast<std::uint32_t>(item);  // a 64-bit division costs more than the copy
    const std::uint32_t chunk = rest % chunks;
    rest /= chunks;
    std::uint32_t tap = rest % tap_count;
    auto row = static_cast<std::uint32_t>(first + rest / tap_count);
    Index element = 0, step = 1;
    bool inside = true;
    for (int d = 2; d >= 0; --d) {
      const std::uint32_t out = static_cast<std::uint32_t>(w.out[d]), taps = static_cast<std::uint32_t>(w.taps[d]);
      const auto q = static_cast<std::int32_t>(row % out), t = static_cast<std::int32_t>(tap % taps);
      row /= out;
      tap /= taps;
      std::int32_t at = q * w.mul[d] + t * w.step[d] + w.offset[d];
      inside = inside && at >= 0 && at % w.div[d] == 0;
      at /= w.div[d];
      inside = inside && at < w.in[d];
      element += at * step;
      step *= w.in[d];
    }
    element += row * step;  // the rest of the row number is the sample
    matrix[item] = inside ? in[element * in_step + chunk] : Chunk{};
  }
};

/// An item sums one channel of one element. Traffic: the matrix is read once, dst is written once.
template <class T>
struct SumTaps {
  Im2col w;
  const float* matrix;
  Index row_step, channels;
  T* dst;
  Divider by_channels;

  KOKKOS_FUNCTION void operator()(Index item) const {
    Index element = item;
    const Index channel = by_channels.split(element);
    auto rest = static_cast<std::uint32_t>(element);
    std::int32_t first[3];
    for (int d = 2; d >= 0; --d) {
      const auto out = static_cast<std::uint32_t>(w.out[d]);
      first[d] = static_cast<std::int32_t>(rest % out) * w.mul[d] + w.offset[d];
      rest /= out;
    }
    float sum = 0;
    Index tap = 0;
    for (std::int32_t a = 0; a < w.taps[0]; ++a)
      for (std::int32_t b = 0; b < w.taps[1]; ++b)
        for (std::int32_t c = 0; c < w.taps[2]; ++c, ++tap) {
          std::int32_t at[3] = {first[0] + a * w.step[0], first[1] + b * w.step[1], first[2] + c * w.step[2]};
          bool inside = true;
          for (int d = 0; d < 3; ++d) {
            inside = inside && at[d] >= 0 && at[d] % w.div[d] == 0;
            at[d] /= w.div[d];
            inside = inside && at[d] < w.in[d];
          }
          if (!inside) continue;
          const Index row = ((Index{rest} * w.in[0] + at[0]) * w.in[1] + at[1]) * w.in[2] + at[2];
          sum += matrix[row * row_step + tap * channels + channel];
        }
    dst[item] = stored<T>(sum);
  }
};

template <class Chunk>
struct TapsBeforeFilters {
  const Chunk* weights;
  Divider filters, taps, chunks;
  Chunk* dst;

  KOKKOS_FUNCTION void operator()(Index item) const {
    Index group = item;
    const Index chunk = chunks.split(group), filter = filters.split(group), tap = taps.split(group);
    dst[item] = weights[((group * filters.divisor() + filter) * taps.divisor() + tap) * chunks.divisor() + chunk];
  }
};

}  // namespace

bool Im2col::trivial() const {
  for (int d = 0; d < 3; ++d)
    if (taps[d] != 1 || out[d] != in[d] || mul[d] != 1 || offset[d] != 0 || div[d] != 1) return false;
  return true;
}

void im2col(const Im2col& w, const void* in, Index in_channels, Index channels, std::size_t bytes, Index first,
            Index rows, void* matrix) {
  constexpr const char* label = "keelson::conv::windows";
  const auto run = static_cast<std::size_t>(channels) * bytes, step = static_cast<std::size_t>(in_channels) * bytes;
  with_chunk(run, step | address(in) | address(matrix), [&](auto tag) {
    using Chunk = decltype(tag);
    const auto chunks = static_cast<Index>(run / sizeof(Chunk));
    if constexpr (runs_on_host) {
      const GatherLines<Chunk> lines{
          w,    static_cast<const Chunk*>(in), static_cast<Index>(step / sizeof(Chunk)), chunks, first,
          rows, static_cast<Chunk*>(matrix)};
      return launch(label, lines.items(), lines);
    }
    const Index items = rows * w.tap_count() * chunks;
    KEELSON_EXPECT(items <= Index{UINT32_MAX} && w.rows() <= Index{UINT32_MAX});
    launch(label, items,
           GatherWindows<Chunk>{w, static_cast<const Chunk*>(in), static_cast<Index>(step / sizeof(Chunk)),
                                static_cast<std::uint32_t>(chunks), static_cast<std::uint32_t>(w.tap_count()), first,
                                static_cast<Chunk*>(matrix)});
  });
}

void sum_taps(const Im2col& w, const float* matrix, Index row_step, Index channels, void* dst, DType type) {
  constexpr const char* label = "keelson::conv::sum_taps";
  const Index items = w.rows() * channels;
  KEELSON_EXPECT(w.rows() <= Index{UINT32_MAX});
  with_type(type, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (runs_on_host && std::is_same_v<T, float>)
      if (w.mul[2] == 1)
        return launch(label, w.rows() / w.out[2], SumTapLines{w, matrix, row_step, channels, static_cast<float*>(dst)});
    launch(label, items, SumTaps<T>{w, matrix, row_step, channels, static_cast<T*>(dst), Divider(channels, items)});
  });
}

void permute_weights(const void* weights, Index groups, Index filters, Index taps, Index channels, std::size_t bytes,
                     void* dst) {
  constexpr const char* label = "keelson::conv::permute_weights";
  const auto run = static_cast<std::size_t>(channels) * bytes;
  with_chunk(run, address(weights) | address(dst), [&](auto tag) {
    using Chunk = decltype(tag);
    const auto chunks = static_cast<Index>(run / sizeof(Chunk));
    const Index items = groups * taps * filters * chunks;
    launch(label, items,
           TapsBeforeFilters<Chunk>{static_cast<const Chunk*>(weights), Divider(filters, items), Divider(taps, items),
                                    Divider(chunks, items), static_cast<Chunk*>(dst)});
  });
}

}  // namespace keelson::kokkos
