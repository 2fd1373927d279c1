#pragma once

#include <algorithm>
#include <type_traits>

#include "backends/common/divider.hpp"
#include "backends/kokkos/common/sum_lanes.hpp"
#include "backends/kokkos/common/tile.hpp"
#include "backends/kokkos/common/values.hpp"

/// Kernels that process every channel of a tensor (N, C, spatial...) in the same manner. A row has all channels of one
/// position of one sample.
namespace keelson::kokkos {

/// The rows of a strided tensor.
struct ChannelRows {
  Index rows, channels, channel_stride;
  bool packed;        ///< channels-last without gaps: the rows are contiguous
  Strided at;         ///< offsets of the first channels, if not packed
  Divider by_weight;  ///< rows that share a sample's weight

  ChannelRows(const TensorDesc& d, Index samples)
      : channels(d.shape[1]), channel_stride(channels > 1 ? d.layout.strides()[1] : 1), at(d) {
    rows = channels > 0 ? d.elements() / channels : 0;
    packed = d.shape.rank() == 2 ? d.layout.is_plain(d.shape) : d.layout.is_channels_last(d.shape);
    by_weight = Divider(samples > 0 ? rows / samples : 1, rows + 1);
    at.rank = d.shape.rank() - 1;
    for (int i = 1; i < at.rank; ++i) at.extents[i] = d.shape[i + 1], at.strides[i] = d.layout.strides()[i + 1];
  }
  KOKKOS_FUNCTION Index offset(Index row, Index channel) const {
    return packed ? row * channels + channel : at.offset(row) + channel * channel_stride;
  }
};

/// The number of channels that a work item processes at once on a CPU (the compiler vectorises them), and the number of
/// rows before the next channels: few enough to stay in the first cache.
inline constexpr int host_pack = 16, wide_host_pack = 64;
inline constexpr Index rows_per_tile = 32;
inline constexpr std::size_t line_bytes = 64;  ///< of a cache

/// On a CPU: from N channels of a row to what is processed after them, which kernels prefetch: the same row's next
/// channels, or the first channels of the next tile. Rows of many channels lie so far apart that the processor does not
/// see this by itself.
template <int N>
KOKKOS_FUNCTION Index to_next_channels(const ChannelRows& r, Index channel) {
  return channel + 2 * N <= r.channels ? N : rows_per_tile * r.channels - channel;
}

/// Calls body.template run<N>(channel) with neighbouring channels, until all channels are processed.
template <class Body>
KOKKOS_FUNCTION void for_all_channels(const ChannelRows& r, const Body& body) {
  Index c = 0;
  if (r.packed) {
    if constexpr (runs_on_host)
      for (; c + wide_host_pack <= r.channels; c += wide_host_pack) body.template run<wide_host_pack>(c);
    for (; c + host_pack <= r.channels; c += host_pack) body.template run<host_pack>(c);
    for (; c + 4 <= r.channels; c += 4) body.template run<4>(c);
  }
  for (; c < r.channels; ++c) body.template run<1>(c);
}

/// Calls use(integral_constant<int, N>), where N channels belong to a work item on a GPU.
template <class T, class Use>
void with_device_pack(const ChannelRows& r, const void* a, const void* b, const Use& use) {
  if (r.packed)
    with_pack<T>(r.channels, a, b, use);
  else
    use(std::integral_constant<int, 1>{});
}

/// N values of a row, as the vectors of a Lanes<N>. A GPU reads all of them at once. A CPU reads each vector where it
/// is used, so that the vector stays in a register.
template <class T, int N>
class RowValues {
 public:
  using Vector = typename Lanes<N>::Vector;
  static constexpr int width = Lanes<N>::width, parts = N / width;

  /// `next`: to_next_channels().
  KOKKOS_FORCEINLINE_FUNCTION void read(const T* from, [[maybe_unused]] Index next) {
    if constexpr (runs_on_host) {
      from_ = from;
      if constexpr (N == wide_host_pack)
        for (int l = 0; l < N; l += static_cast<int>(line_bytes / sizeof(T))) prefetch<true>(from + next + l);
    } else {
      load(from, values_);
    }
  }
  KOKKOS_FORCEINLINE_FUNCTION Vector vector(int p) const {
    if constexpr (!runs_on_host) {
      return *reinterpret_cast<const Vector*>(values_ + p);
    } else if constexpr (std::is_same_v<T, float>) {
      return *reinterpret_cast<const Vector*>(from_ + p * width);
    } else {
      float part[width];
      load(from_ + p * width, part);
      return *reinterpret_cast<const Vector*>(part);
    }
  }

 private:
  const T* from_;
  float values_[runs_on_host ? 1 : N];
};

/// N results of a row, which are written as they are set on a CPU, and at once by store() on a GPU.
template <class T, int N>
class RowResults {
 public:
  using Vector = typename Lanes<N>::Vector;
  static constexpr int width = Lanes<N>::width;

  /// `next`: to_next_channels(); 0 if these have been read before.
  KOKKOS_FORCEINLINE_FUNCTION RowResults(T* to, [[maybe_unused]] Index next) : to_(to) {
    if constexpr (runs_on_host && N == wide_host_pack)
      if (next > 0)
        for (int l = 0; l < N; l += static_cast<int>(line_bytes / sizeof(T))) prefetch_to_write(to + next + l);
  }
  KOKKOS_FORCEINLINE_FUNCTION void set(int p, const Vector& v) {
    if constexpr (!runs_on_host) {
      *reinterpret_cast<Vector*>(values_ + p) = v;
    } else if constexpr (std::is_same_v<T, float>) {
      *reinterpret_cast<Vector*>(to_ + p * width) = v;
    } else {
      float part[width];
      *reinterpret_cast<Vector*>(part) = v;
      kokkos::store(to_ + p * width, part);
    }
  }
  KOKKOS_FORCEINLINE_FUNCTION void store() {
    if constexpr (!runs_on_host) kokkos::store(to_, values_);
  }

 private:
  T* to_;
  float values_[runs_on_host ? 1 : N];
};

/// A value of each of N channels, as vectors.
template <int N>
struct ChannelValues {
  using Vector = typename Lanes<N>::Vector;
  static constexpr int width = Lanes<N>::width;
  Vector part[N / width];

  /// value(l): of channel l.
  template <class Value>
  KOKKOS_FUNCTION explicit ChannelValues(const Value& value) {
    for (int p = 0; p < N / width; ++p) {
      float values[width];
      for (int l = 0; l < width; ++l) values[l] = value(p * width + l);
      part[p] = *reinterpret_cast<const Vector*>(values);
    }
  }
};

/// v in the lanes where `condition` is positive, else 0 (NaN: 0).
template <class Vector>
KOKKOS_FORCEINLINE_FUNCTION Vector where_positive(Vector condition, Vector v) {
#if defined(__CUDACC__) || defined(__HIPCC__) || !defined(__GNUC__)
  return {condition.x > 0 ? v.x : 0.0f};
#else
  return condition > 0 ? v : Vector{};
#endif
}

/// v in the lanes that are not negative, else 0 (NaN stays).
template <class Vector>
KOKKOS_FORCEINLINE_FUNCTION Vector without_negative(Vector v) {
#if defined(__CUDACC__) || defined(__HIPCC__) || !defined(__GNUC__)
  return {v.x < 0 ? 0.0f : v.x};
#else
  return v < 0 ? Vector{} : v;
#endif
}

/// Rows that a work item on a GPU reads before it computes with the first of them: memory answers late.
inline constexpr int rows_ahead = 4;

/// Calls use(integral_constant<int, K>, row) for row = begin, begin + step, ... below end, K rows in each call.
template <class Use>
KOKKOS_FORCEINLINE_FUNCTION void for_rows(Index begin, Index end, Index step, const Use& use) {
  Index row = begin;
  if constexpr (!runs_on_host)
    for (; row + (rows_ahead - 1) * step < end; row += rows_ahead * step)
      use(std::integral_constant<int, rows_ahead>{}, row);
  for (; row < end; row += step) use(std::integral_constant<int, 1>{}, row);
}

// ---- element-wise work: body.template rows<N>(begin, end, step, channel)

template <class Body>
struct HostTiles {
  Body body;
  ChannelRows r;
  struct One {
    const Body& body;
    Index begin, end;
    template <int N>
    KOKKOS_FUNCTION void run(Index channel) const {
      body.template rows<N>(begin, end, 1, channel);
    }
  };
  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index begin = item * rows_per_tile;
    for_all_channels(r, One{body, begin, begin + rows_per_tile < r.rows ? begin + rows_per_tile : r.rows});
  }
};

template <class Body, int N>
struct DevicePacks {
  Body body;
  Divider by_packs;
  Index rows, step;
  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index pack = by_packs.split(item);
    body.template rows<N>(item, rows, step, pack * N);
  }
};

/// `a` and `b`: the arrays of T that are read and written; their alignment matters.
template <class T, class Body>
void for_each_row(const char* label, const ChannelRows& r, const void* a, const void* b, const Body& body) {
  if constexpr (runs_on_host) {
    launch(label, ceil_div(r.rows, rows_per_tile), HostTiles<Body>{body, r});
  } else {
    with_device_pack<T>(r, a, b, [&](auto n) {
      constexpr int N = decltype(n)::value;
      // An item processes several rows, for which it computes what belongs to a channel once, but there are enough
      // items for the whole GPU.
      constexpr Index many = Index{1} << 18, most_each = 16;
      const Index packs = r.channels / N;
      const Index step = ceil_div(r.rows, std::clamp<Index>(r.rows * packs / many, 1, most_each));
      launch(label, step * packs, DevicePacks<Body, N>{body, Divider(packs, step * packs), r.rows, step});
    });
  }
}

// ---- two sums per channel, in f64: term.template add<N>(begin, end, step, channel, first, second)
// On a CPU, a term with begin_tile(begin, end) or end_tile(begin, end) gets a call for each tile of rows before the
// first or after the last add() of the tile.

/// Divides the rows among `slots`: all rows, or the rows of each sample, which then has sums of its own. The division
/// depends only on the numbers of rows and samples. Then groups of `fan` partial sums are added.
struct ChannelSumsPlan {
  static constexpr Index fan = 64;
  static constexpr Index two_fans = fan * fan;  ///< most slots on a GPU: more of them need another launch
  Index samples, slots, width;

  explicit ChannelSumsPlan(const ChannelRows& r, Index samples = 1)
      : samples(samples > 0 ? samples : 1), width(2 * r.channels * this->samples) {
    const Index columns = r.channels > 0 ? r.channels * this->samples : 1;
    const Index most = runs_on_host ? ceil_div(256, this->samples) : std::min(two_fans, (Index{1} << 19) / columns);
    const Index wanted = ceil_div(rows_each(r), runs_on_host ? 16 * rows_per_tile : 4 * rows_ahead);
    slots = wanted < 1 ? 1 : wanted < most ? wanted : most < 1 ? 1 : most;
  }
  Index rows_each(const ChannelRows& r) const { return r.rows / samples; }
  std::size_t scratch_bytes() const {
    return static_cast<std::size_t>((slots + ceil_div(slots, fan)) * width) * sizeof(double);
  }
};

template <class Term>
struct HostSums {
  Term term;
  ChannelRows r;
  Index slots, rows;  ///< of a sample
  Divider by_samples;
  double* sums;  ///< (slots, samples, 2, channels)

  struct Tile {
    const Term& term;
    Index begin, end, channels;
    double* to;
    template <int N>
    KOKKOS_FUNCTION void run(Index channel) const {
      SumLanes<N> first, second;
      term.template add<N>(begin, end, 1, channel, first, second);
      first.add_to(to + channel);
      second.add_to(to + channels + channel);
    }
  };
  KOKKOS_FUNCTION void operator()(Index slot) const {
    double* to = sums + slot * 2 * r.channels;
    for (Index i = 0; i < 2 * r.channels; ++i) to[i] = 0;
    const Index start = by_samples.split(slot) * rows, each = (rows + slots - 1) / slots, first = start + slot * each;
    const Index last = slot * each + each < rows ? first + each : start + rows;
    for (Index begin = first; begin < last; begin += rows_per_tile) {
      const Index end = std::min(begin + rows_per_tile, last);
      if constexpr (requires { term.begin_tile(begin, end); }) term.begin_tile(begin, end);
      for_all_channels(r, Tile{term, begin, end, r.channels, to});
      if constexpr (requires { term.end_tile(begin, end); }) term.end_tile(begin, end);
    }
  }
};

template <class Term, int N>
struct DeviceSums {
  Term term;
  Divider by_packs, by_samples;
  Index rows, slots, channels;  ///< rows and slots of a sample
  double* sums;

  KOKKOS_FUNCTION void operator()(Index slot) const {
    const Index channel = by_packs.split(slot) * N;
    double* to = sums + slot * 2 * channels + channel;
    const Index start = by_samples.split(slot) * rows;
    SumLanes<N> first, second;
    term.template add<N>(start + slot, start + rows, slots, channel, first, second);
    first.store(to);
    second.store(to + channels);
  }
};

/// Neighbouring items add neighbouring columns.
struct FanIn {
  const double* from;
  double* to;
  Index slots, next;
  Divider by_width;
  KOKKOS_FUNCTION void operator()(Index item) const {
    Index s = item;
    const Index column = by_width.split(s), width = by_width.divisor();
    double sum = 0;
    constexpr int ahead = 16;  // values that are read before the first of them is added
    for (; s + (ahead - 1) * next < slots; s += ahead * next) {
      double values[ahead];
      for (int k = 0; k < ahead; ++k) values[k] = from[(s + k * next) * width + column];
      for (int k = 0; k < ahead; ++k) sum += values[k];
    }
    for (; s < slots; s += next) sum += from[s * width + column];
    to[item] = sum;
  }
};

/// result: (samples, 2, channels). scratch: ChannelSumsPlan::scratch_bytes().
template <class T, class Term>
void channel_sums(const char* label, const ChannelRows& r, const void* a, const void* b, const Term& term,
                  double* result, void* scratch, Index samples = 1) {
  const ChannelSumsPlan plan(r, samples);
  const Divider by_samples(plan.samples, plan.slots * plan.samples);
  double *here = static_cast<double*>(scratch), *there = here + plan.slots * plan.width;
  double* first = plan.slots == 1 ? result : here;
  if constexpr (runs_on_host)
    launch(label, plan.slots * plan.samples, HostSums<Term>{term, r, plan.slots, plan.rows_each(r), by_samples, first});
  else
    with_device_pack<T>(r, a, b, [&](auto n) {
      constexpr int N = decltype(n)::value;
      const Index packs = r.channels / N, items = plan.slots * plan.samples * packs;
      launch(label, items,
             DeviceSums<Term, N>{term, Divider(packs, items), by_samples, plan.rows_each(r), plan.slots, r.channels,
                                 first});
    });
  for (Index slots = plan.slots; slots > 1;) {
    const Index next = ceil_div(slots, ChannelSumsPlan::fan);
    launch(label, next * plan.width,
           FanIn{here, next == 1 ? result : there, slots, next, Divider(plan.width, next * plan.width)});
    double* swap = here;
    here = there, there = swap;
    slots = next;
  }
}

}  // namespace keelson::kokkos
