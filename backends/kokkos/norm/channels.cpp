#include "backends/kokkos/norm/channels.hpp"

#include <algorithm>

#include "backends/kokkos/elementwise/eltwise_math.hpp"
#include "backends/kokkos/norm/channel_rows.hpp"

namespace keelson::kokkos {

namespace {

/// Traffic: every value read once and written once.
template <class T, int N>
struct BiasActivation {
  T* values;
  Divider by_channels;  ///< packs of a row
  const float* bias;
  ops::EltwiseParams activation;

  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    const ops::EltwiseParams p = activation;
    for (Index i = begin; i < end; ++i) {
      float x[N];
      load(values + i * N, x);
      if (bias) {
        Index row = i;
        const float* b = bias + by_channels.split(row) * N;
        for (int j = 0; j < N; ++j) x[j] += b[j];
      }
      activate(p, x);
      store(values + i * N, x);
    }
  }
};

/// An item writes a pack of dst. Traffic: src read once (partly, if dst has fewer channels), dst written once.
template <class From, class To, int N>
struct CopyChannels {
  const From* src;
  Index src_channels;
  To* dst;
  Divider by_packs;  ///< packs of N in a row of dst
  bool whole;        ///< every pack is inside src's channels and can be read as a pack

  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    for (Index i = begin; i < end; ++i) {
      Index row = i;
      const Index channel = by_packs.split(row) * N;
      const From* from = src + row * src_channels + channel;
      float x[N];
      if (whole)
        load(from, x);
      else
        for (int j = 0; j < N; ++j) x[j] = channel + j < src_channels ? value_of(from[j]) : 0.0f;
      store(dst + i * N, x);
    }
  }
};

template <class From, class To, int N>
void copy_packs(const From* src, Index src_channels, To* dst, Index dst_channels, Index rows) {
  constexpr const char* label = "keelson::channels::copy";
  const bool whole = src_channels >= dst_channels && src_channels % N == 0 && aligned(src, sizeof(From) * N);
  const Index packs = dst_channels / N, items = rows * packs;
  for_each_block(label, items, CopyChannels<From, To, N>{src, src_channels, dst, Divider(packs, items), whole});
}

/// How the sums are divided: `slots` partial sums per channel, each over every slots-th row, so that neighbours in a
/// launch read neighbouring rows. Then groups of `fan` partial sums are added until one sum is left.
struct SumPlan {
  static constexpr Index fan = 64;
  Index slots;

  SumPlan(Index rows, Index channels) {
    const Index at_once = runs_on_host ? 1 << 10 : 1 << 19;  // values of the first sums
    slots = std::clamp<Index>(at_once / std::max<Index>(channels, 1), 1,
                              std::max<Index>(1, ceil_div(rows, runs_on_host ? 8 : 8 * rows_ahead)));
  }
};

template <class T, int N>
struct ChannelSums {
  const T* values;
  Index rows, slots;
  Divider by_packs;  ///< packs of N in a row
  float* sums;       ///< (slots, channels)

  KOKKOS_FUNCTION void operator()(Index item) const {
    Index slot = item;
    const Index packs = by_packs.divisor(), pack = by_packs.split(slot);
    float sum[N] = {};
    for_rows(slot, rows, slots, [&](auto count, Index row) {
      constexpr int K = decltype(count)::value;
      float x[K][N];
      for (int k = 0; k < K; ++k) load(values + ((row + k * slots) * packs + pack) * N, x[k]);
      for (int k = 0; k < K; ++k)
        for (int j = 0; j < N; ++j) sum[j] += x[k][j];
    });
    store(sums + item * N, sum);
  }
};

template <class T>
void partial_sums(const T* values, Index rows, Index channels, Index slots, float* sums) {
  constexpr const char* label = "keelson::channels::partial_sums";
  with_pack<T>(channels, values, sums, [&](auto n) {
    constexpr int N = decltype(n)::value;
    const Index packs = channels / N, items = slots * packs;
    launch(label, items, ChannelSums<T, N>{values, rows, slots, Divider(packs, items), sums});
  });
}

/// The two parts of the scratch memory, in floats: results of the first launch, and of the second.
Index first_part(const SumPlan& plan, Index channels) { return ceil_div(plan.slots * channels, 4) * 4; }

}  // namespace

void add_bias_and_activate(void* values, DType type, Index rows, Index channels, const float* bias,
                           const ops::EltwiseParams& activation) {
  constexpr const char* label = "keelson::channels::bias_and_activation";
  if (!bias && activation.kind == ops::EltwiseKind::identity) return;
  with_type(type, [&](auto tag) {
    using T = decltype(tag);
    with_pack<T>(channels, values, values, [&](auto n) {
      constexpr int N = decltype(n)::value;
      const Index packs = channels / N, items = rows * packs;
      for_each_block(label, items,
                     BiasActivation<T, N>{static_cast<T*>(values), Divider(packs, items), bias, activation});
    });
  });
}

void copy_channels(const void* src, DType src_type, Index src_channels, void* dst, DType dst_type, Index dst_channels,
                   Index rows) {
  with_type(src_type, [&](auto from) {
    with_type(dst_type, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      with_pack<To>(dst_channels, dst, dst, [&](auto n) {
        copy_packs<From, To, decltype(n)::value>(static_cast<const From*>(src), src_channels, static_cast<To*>(dst),
                                                 dst_channels, rows);
      });
    });
  });
}

std::size_t channel_sums_scratch(Index rows, Index channels) {
  const SumPlan plan(rows, channels);
  return static_cast<std::size_t>(first_part(plan, channels) + ceil_div(plan.slots, SumPlan::fan) * channels) *
         sizeof(float);
}

void channel_sums(const void* values, DType type, Index rows, Index channels, float* sums, void* scratch) {
  const SumPlan plan(rows, channels);
  auto* here = static_cast<float*>(scratch);
  auto* there = here + first_part(plan, channels);
  with_type(type, [&](auto tag) {
    using T = decltype(tag);
    partial_sums(static_cast<const T*>(values), rows, channels, plan.slots, plan.slots == 1 ? sums : here);
  });
  for (Index slots = plan.slots; slots > 1;) {
    const Index next = ceil_div(slots, SumPlan::fan);
    partial_sums<float>(here, slots, channels, next, next == 1 ? sums : there);
    std::swap(here, there);
    slots = next;
  }
}

}  // namespace keelson::kokkos
