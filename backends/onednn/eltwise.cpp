#include "engine/ops/eltwise.hpp"
#include "backends/onednn/support.hpp"

namespace keelson::onednn {
namespace {

using dnnl::eltwise_backward;
using dnnl::eltwise_forward;
using ops::Role;
using ops::Verb;

class Eltwise final : public CallPrimitive<ops::Eltwise> {
 public:
  Eltwise(const LibraryPtr& library, const ops::EltwiseDesc& d) {
    const bool opaque = d.src.layout.is_opaque();
    const auto md = to_desc(d.src);
    const double flops = static_cast<double>(d.src.elements());
    const auto describe = [&](const EltwiseAlgorithm& a) {
      return eltwise_forward::primitive_desc(library->engine, dnnl::prop_kind::forward_training, a.algorithm, md, md,
                                             a.alpha, a.beta, attributes());
    };
    const auto forward = describe(forward_algorithm(d.params));
    require_fast(forward, Verb::forward, opaque);
    forward_call() = Call::make<eltwise_forward>(library, forward, flops);
    forward_call().bind(Role::src, DNNL_ARG_SRC, md, d.src).bind(Role::dst, DNNL_ARG_DST, md, d.src).own_scratch();

    const auto a = backward_algorithm(d.params);
    const eltwise_backward::primitive_desc backward(library->engine, a.algorithm, md, md, md, a.alpha, a.beta,
                                                    describe(a), attributes());
    require_fast(backward, Verb::backward_data, opaque);
    // The derivative of a linear function is constant. oneDNN needs a src, and accepts any tensor of this shape.
    const bool reads_dst = ops::derivative_from_dst(d.params) && a.algorithm != dnnl::algorithm::eltwise_linear;
    data_call() = Call::make<eltwise_backward>(library, backward, flops);
    data_call()
        .bind(Role::diff_dst, DNNL_ARG_DIFF_DST, md, d.src)
        .bind(reads_dst ? Role::dst : Role::src, reads_dst ? DNNL_ARG_DST : DNNL_ARG_SRC, md, d.src)
        .bind(Role::diff_src, DNNL_ARG_DIFF_SRC, md, d.src)
        .own_scratch();
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, dst] = args;
    forward_call().run({&src, &dst});
  }
  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [diff_dst, saved, diff_src] = args;
    data_call().run({&diff_dst, &saved, &diff_src});
  }
};

/// Whether the Kokkos backend's loop takes less time than oneDNN's (3.12) call. For AVX2, oneDNN's tanh takes 4 times
/// as long (Zen 3), and the other functions take 1.1 to 3 times as long while the values fit the caches. Elsewhere, a
/// call of some us for a few values is slow. The compiler does not vectorise Kokkos' softplus, and GELU is as fast.
bool slow(const ops::EltwiseDesc& d) {
  using enum ops::EltwiseKind;
  constexpr std::int64_t few = 1 << 16;
  if (d.src.dtype != DType::f32 || d.src.layout.is_opaque() || d.params.kind == softplus || d.params.kind == gelu)
    return false;
  return !has_instructions(dnnl::cpu_isa::avx512_core) || d.src.elements() <= few;
}

}  // namespace

std::unique_ptr<ops::Eltwise> make_eltwise(const LibraryPtr& library, const ops::EltwiseDesc& d) {
  if (d.src.layout.is_any()) decline("layout any; element-wise work takes its producer's layout");
  if (slow(d)) decline("oneDNN's calls do not pay for {} of {} elements", to_string(d.params), d.src.elements());
  return std::make_unique<Eltwise>(library, d);
}

}  // namespace keelson::onednn
