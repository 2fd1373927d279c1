#include "engine/ops/batch_norm.hpp"

#include <string_view>

#include "backends/onednn/support.hpp"

namespace keelson::onednn {
namespace {

using ops::Role;
using ops::Verb;

/// Normalisation with given statistics; oneDNN calls this inference. (oneDNN's training computes the statistics of one
/// rank, without sample weights.)
class BatchNorm final : public CallPrimitive<ops::BatchNorm> {
 public:
  BatchNorm(const LibraryPtr& library, const ops::BatchNormDesc& d) {
    using dnnl::normalization_flags;
    const auto md = to_desc(d.src), channels = to_desc(d.channel_desc());
    const auto flags =
        normalization_flags::use_global_stats | normalization_flags::use_scale | normalization_flags::use_shift;
    const dnnl::batch_normalization_forward::primitive_desc pd(library->engine, dnnl::prop_kind::forward_inference, md,
                                                               md, d.epsilon, flags, attributes());
    require_fast(pd, Verb::forward, d.src.layout.is_opaque());
    // Channels-last tensors whose channels do not fill AVX-512's vectors get such a kernel: it takes 4 to 8 times as
    // long as the kernel of the Kokkos backend.
    const bool is_narrow = std::string_view(pd.impl_info_str()).find("avx2") != std::string_view::npos;
    if (is_narrow && has_instructions(dnnl::cpu_isa::avx512_core))
      decline("for {} channels there are kernels for AVX2, which do not pay on processors with AVX-512",
              d.src.shape[1]);
    forward_call() =
        Call::make<dnnl::batch_normalization_forward>(library, pd, 5.0 * static_cast<double>(d.src.elements()));
    forward_call()
        .bind(Role::src, DNNL_ARG_SRC, md, d.src)
        .bind(Role::mean, DNNL_ARG_MEAN, channels, d.channel_desc())
        .bind(Role::variance, DNNL_ARG_VARIANCE, channels, d.channel_desc())
        .bind(Role::weights, DNNL_ARG_SCALE, channels, d.channel_desc())
        .bind(Role::bias, DNNL_ARG_SHIFT, channels, d.channel_desc())
        .bind(Role::dst, DNNL_ARG_DST, md, d.src)
        .own_scratch();
  }
  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, mean, variance, scale, shift, dst] = args;
    forward_call().run({&src, &mean, &variance, &scale, &shift, &dst});
  }
};

}  // namespace

std::unique_ptr<ops::BatchNorm> make_batch_norm(const LibraryPtr& library, const ops::BatchNormDesc& d) {
  if (d.src.layout.is_any()) decline("layout any; batch normalization takes its producer's layout");
  if (d.relu) decline("oneDNN's ReLU makes 0 of NaN");
  return std::make_unique<BatchNorm>(library, d);
}

}  // namespace keelson::onednn
