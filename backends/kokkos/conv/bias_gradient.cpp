#include "engine/ops/bias_gradient.hpp"

#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/norm/channel_rows.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

/// channel_sums() computes two sums per channel; the second is not needed. Traffic: every value read once.
template <class T>
struct DiffSums {
  const T* diff;
  ChannelRows r;

  template <int N>
  KOKKOS_FUNCTION void add(Index begin, Index end, Index step, Index channel, SumLanes<N>& sum, SumLanes<N>&) const {
    const Index next = to_next_channels<N>(r, channel);
    for_rows(begin, end, step, [&](auto count, Index row) {
      constexpr int K = decltype(count)::value;
      RowValues<T, N> x[K];
      for (int k = 0; k < K; ++k) x[k].read(diff + r.offset(row + k * step, channel), next);
      for (int k = 0; k < K; ++k) {
        KEELSON_UNROLL
        for (int p = 0; p < RowValues<T, N>::parts; ++p)
          SumLanes<N>::widened(p, [&](int i, auto value) { sum.part[i] += value; }, x[k].vector(p));
      }
    });
  }
};

struct RoundSums {
  const double* sums;
  float* dst;
  KOKKOS_FUNCTION void operator()(Index c) const { dst[c] = static_cast<float>(sums[c]); }
};

class KokkosBiasGradient : public BiasGradient {
 public:
  explicit KokkosBiasGradient(const BiasGradientDesc& d) : desc_(d), rows_(d.diff_dst, d.diff_dst.shape[0]) {}

  Layout layout(Verb, Role r) const override {
    return r == Role::diff_dst ? desc_.diff_dst.layout : desc_.bias_desc().layout;
  }
  std::string name(Verb) const override { return rows_.packed ? "channel_rows" : "strided_rows"; }
  std::size_t scratch_bytes(Verb) const override { return result_bytes() + ChannelSumsPlan(rows_).scratch_bytes(); }
  Cost cost(Verb) const override {
    return {static_cast<double>(desc_.diff_dst.elements()), static_cast<double>(desc_.diff_dst.bytes())};
  }

  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    const auto& [diff_dst, diff_bias, scratch] = args;
    auto* sums = static_cast<double*>(scratch.raw());
    auto* rest = static_cast<std::byte*>(scratch.raw()) + result_bytes();
    with_type(desc_.diff_dst.dtype, [&](auto type) {
      using T = decltype(type);
      const auto* diff = diff_dst.data<T>();
      channel_sums<T>("keelson::bias_gradient::sums", rows_, diff, diff, DiffSums<T>{diff, rows_}, sums, rest);
    });
    launch("keelson::bias_gradient::round", rows_.channels, RoundSums{sums, diff_bias.data<float>()});
  }

 private:
  std::size_t result_bytes() const { return align64(2 * static_cast<std::size_t>(rows_.channels) * sizeof(double)); }

  BiasGradientDesc desc_;
  ChannelRows rows_;
};

}  // namespace

Expected<BiasGradient> make(const BiasGradientDesc& d) {
  if (auto why = not_strided_values("diff_dst", d.diff_dst); !why.empty()) return why;
  if (d.diff_dst.layout.is_any()) return std::string("diff_dst has no layout yet; sums take their producer's layout");
  if (d.diff_dst.shape.rank() < 2) return std::string("diff_dst has no channels");
  return std::unique_ptr<BiasGradient>(std::make_unique<KokkosBiasGradient>(d));
}

}  // namespace keelson::kokkos
