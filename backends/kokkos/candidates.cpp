#include "backends/kokkos/candidates.hpp"

#include <algorithm>

#include "backends/kokkos/common/tile.hpp"
#include "backends/kokkos/conv/gemm_conv.hpp"
#include "backends/kokkos/fft/fft_conv.hpp"
#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/matmul/packed_products.hpp"
#include "backends/kokkos/matmul/skinny_gemm.hpp"
#include "backends/kokkos/winograd/row_winograd.hpp"
#include "backends/kokkos/winograd/winograd.hpp"
#include "engine/ops/candidates.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

template <class Desc>
using Request = CandidateRequest<Desc>;

/// The reason why src or dst is not channels-last; empty: both are. src may have gaps between its rows of channels.
std::string not_channels_last(const ConvDesc& d) {
  for (const auto& [name, t] : {std::pair{"src", &d.src}, {"dst", &d.dst}})
    if (!(t == &d.src ? t->layout.without_gaps(t->shape) : t->layout).is_channels_last(t->shape))
      return fmt::format("{} is not channels-last", name);
  return "";
}

Expected<Conv> make_direct(const ConvDesc& d, Verb) {
  if (auto why = not_channels_last(d); !why.empty()) return why;
  return make(d);
}

Expected<Conv> make_products(const ConvDesc& d, Verb v) {
  if (!runs_on_host) return std::string("for CPUs");
  const auto product = [](const MatMulDesc& m) { return make(m); };
  return d.params.kernel.elements() == 1 ? make_pointwise_conv(d, v, product) : make_few_channels_conv(d, product);
}

Expected<Conv> make_row_winograd(const ConvDesc& d, Verb v) {
  if (auto why = not_channels_last(d); !why.empty()) return why;
  return make_row_winograd_conv(d, v);
}

Expected<Conv> make_fft(const ConvDesc& d, Verb v) {
  if (auto why = not_channels_last(d); !why.empty()) return why;
  return make_fft_conv(d, v);
}

/// For the gradient of the weights, sums of outer products are faster than oneDNN's kernels that work on blocked
/// tensors: on channels-last tensors of two dims with many channels, oneDNN 3.12 takes 1.4 to 1.9 times as long (kernel
/// 3, AVX-512 of a Zen 5). For kernels of one tap, and compared with oneDNN's batch-reduce kernels ("brg"), there is no
/// difference.
Preference prefer_outer_products(const Request<ConvDesc>& r) {
  constexpr std::int64_t many = 64;
  constexpr int floats_of_avx512 = 16;
  const ConvDesc& d = r.desc;
  bool has_stride = false;
  for (int i = 0; i < d.params.kernel.rank(); ++i)
    has_stride = has_stride || (d.params.stride[i] > 1 && d.params.kernel[i] > 1);
  const bool wanted = r.verb == Verb::backward_weights && d.src.dtype == DType::f32 && d.src.shape.rank() == 4 &&
                      d.params.kernel.elements() > 1 && !has_stride && d.weights.shape[1] >= many &&
                      d.weights.shape[0] / d.params.groups >= many && vector_width >= floats_of_avx512 && r.first &&
                      r.first->name(r.verb).find("brg") == std::string::npos;
  return wanted ? Preference::preferred : Preference::equal;
}

/// Winograd's algorithm with tiles of m for each op that has this algorithm.
template <int m>
struct Winograd {
  static Expected<Conv> conv(const ConvDesc& d, Verb v) {
    if (auto why = not_channels_last(d); !why.empty()) return why;
    return make_winograd_conv(d, v, m);
  }
  static Expected<ConvMaxPoolForward> conv_max_pool(const ConvMaxPoolForwardDesc& d, Verb) {
    return make_winograd_conv_max_pool(d, m);
  }
  static Expected<ConvMaxPoolBackward> conv_max_pool_backward(const ConvMaxPoolDesc& d, Verb v) {
    return make_winograd_max_pool_backward(d, v, m);
  }
  static Preference prefer(const ConvDesc& d, Verb v) {
    return winograd_guess(d, v) == m ? Preference::preferred : Preference::equal;
  }
  static Preference prefer_conv(const Request<ConvDesc>& r) { return prefer(r.desc, r.verb); }
  static Preference prefer_pooled(const Request<ConvMaxPoolForwardDesc>& r) { return prefer(r.desc.conv, r.verb); }
};

/// Rounded operands help only kernels that multiply them faster, which Winograd's kernels do not.
bool keeps_f32(const ConvMaxPoolForwardDesc& d) { return d.conv.src.dtype == DType::f32; }

Expected<MatMul> make_skinny(const MatMulDesc& d, Verb) { return make_skinny_gemm(d); }

}  // namespace

void add_candidates(OpFactory& factory) {
  const auto conv = [](auto make) { return found_by<ConvDesc>(make); };
  factory.add_candidates<ConvDesc>({
      // name                  made by                     rule of thumb
      {"winograd, tiles of 4", conv(Winograd<4>::conv), Winograd<4>::prefer_conv},
      {"winograd, tiles of 3", conv(Winograd<3>::conv), Winograd<3>::prefer_conv},
      {"winograd, tiles of 2", conv(Winograd<2>::conv), Winograd<2>::prefer_conv},
      {"winograd, along rows", conv(make_row_winograd)},
      {"fourier transforms", conv(make_fft)},
      {"matrix products", conv(make_products)},
      {"direct", conv(make_direct), prefer_outer_products},
  });
  const auto pooled = [](auto make) { return found_by<ConvMaxPoolForwardDesc>(make); };
  factory.add_candidates<ConvMaxPoolForwardDesc>({
      {"winograd, tiles of 4", pooled(Winograd<4>::conv_max_pool), Winograd<4>::prefer_pooled, keeps_f32},
      {"winograd, tiles of 2", pooled(Winograd<2>::conv_max_pool), Winograd<2>::prefer_pooled, keeps_f32},
  });
  const auto pooled_gradient = [](auto make) { return found_by<ConvMaxPoolDesc>(make); };
  factory.add_candidates<ConvMaxPoolDesc>({
      {"winograd, tiles of 4", pooled_gradient(Winograd<4>::conv_max_pool_backward)},
      {"winograd, tiles of 3", pooled_gradient(Winograd<3>::conv_max_pool_backward)},
      {"winograd, tiles of 2", pooled_gradient(Winograd<2>::conv_max_pool_backward)},
  });
  factory.add_candidates<MatMulDesc>(
      {{"few rows", found_by<MatMulDesc>(make_skinny)}, {"packed panels", found_by<MatMulDesc>(make_packed_matmul)}});
  factory.add_candidates<DenseDesc>({{"packed panels", found_by<DenseDesc>(make_packed_dense)}});
}

}  // namespace keelson::kokkos
