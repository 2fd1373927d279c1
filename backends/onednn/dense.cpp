#include <optional>

#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/matmul/column_sums.hpp"
#include "backends/onednn/gemm.hpp"
#include "backends/onednn/small_gemm.hpp"
#include "backends/onednn/weighted.hpp"
#include "engine/ops/dense.hpp"

namespace keelson::onednn {
namespace {

struct DenseKinds {
  using Forward = dnnl::inner_product_forward;
  using BackwardData = dnnl::inner_product_backward_data;
  using BackwardWeights = dnnl::inner_product_backward_weights;
};

/// Whether to apply the activation after oneDNN's product instead of in it. For AVX2, oneDNN's (3.12) tanh and what
/// attributes() makes of sigmoid take 7 times as long as Kokkos' loop: nearly as long as the product of 300 features.
bool is_slow_in_product(const ops::DenseDesc& d) {
  const auto kind = d.params.activation.kind;
  return (kind == ops::EltwiseKind::tanh || kind == ops::EltwiseKind::sigmoid) &&
         (d.dst.layout.is_any() || d.dst.layout.is_strided()) && !has_instructions(dnnl::cpu_isa::avx512_core);
}

class Dense final : public Weighted<ops::DenseDesc, DenseKinds> {
 public:
  Dense(const LibraryPtr& library, const ops::DenseDesc& d) : Weighted(library, d, ops::dense_flops(d), 1) {
    if (is_slow_in_product(d)) {
      const TensorDesc dst = d.dst.layout.is_any() ? d.dst.with(Layout::plain(d.dst.shape)) : d.dst;
      activation_ = std::move(kokkos::make(ops::EltwiseDesc{d.params.activation, dst}).primitive);
      given_.dst = to_desc(dst);
      in_product_ = {};
    }
    build(
        [&](const Operands& o) {
          return DenseKinds::Forward::primitive_desc(library->engine, forward_kind(), o.src, o.weights, bias_, o.dst,
                                                     attributes(in_product_));
        },
        [&](const Operands& o, const auto& forward) {
          return DenseKinds::BackwardData::primitive_desc(library->engine, o.src, o.weights, o.dst, forward,
                                                          attributes(), true);
        },
        [&](const Operands& o, const auto& forward) {
          return DenseKinds::BackwardWeights::primitive_desc(library->engine, o.src, o.weights, bias_, o.dst, forward,
                                                             attributes(), true);
        });
    if (d.training && d.src.dtype == DType::f32) make_gemms();
    make_small_gemms();
  }

  std::string name(Verb v) const override {
    const Gemm* p = gemm(v);
    const std::string product = small(v) ? "small_gemm" : p ? p->name() : Weighted::name(v);
    return v == Verb::forward && activation_ ? product + ", " + to_string(d_.params.activation) : product;
  }
  std::size_t scratch_bytes(Verb v) const override {
    if (const SmallGemm* p = small(v)) return p->scratch_bytes();
    const Gemm* p = gemm(v);
    return p ? p->all_scratch_bytes() : Weighted::scratch_bytes(v);
  }

  void forward(const ops::Dense::Forward<ops::Tensors>& args) override {
    const auto& [src, weights, bias, dst, scratch] = args;
    if (const SmallGemm* p = small(Verb::forward))
      p->run(src.data<float>(), weights.data<float>(), d_.params.bias ? bias.data<float>() : nullptr, alpha(),
             dst.data<float>(), scratch.raw());
    else
      Weighted::forward(args);
    if (activation_) activation_->forward({dst, dst});
  }

  void backward_data(const ops::Dense::BackwardData<ops::Tensors>& args) override {
    const auto& [diff_dst, weights, diff_src, scratch] = args;
    if (const SmallGemm* p = small(Verb::backward_data))
      p->run(diff_dst.data<float>(), weights.data<float>(), nullptr, 1, diff_src.data<float>(), scratch.raw());
    else if (data_)
      data_.pack_and_run(diff_dst, weights, diff_src, scratch.raw());
    else
      Weighted::backward_data(args);
  }

  void backward_weights(const ops::Dense::BackwardWeights<ops::Tensors>& args) override {
    const auto& [src, diff_dst, diff_weights, diff_bias, scratch] = args;
    if (const SmallGemm* p = small(Verb::backward_weights))
      p->run(diff_dst.data<float>(), src.data<float>(), nullptr, 1, diff_weights.data<float>(), scratch.raw());
    else if (weights_)
      weights_.pack_and_run({diff_dst.desc().transposed(), diff_dst.raw()}, src, diff_weights, scratch.raw());
    else
      return Weighted::backward_weights(args);
    if (!d_.params.bias) return;
    const auto rows = d_.dst.shape[0], columns = d_.dst.shape[1];
    kokkos::column_sums(diff_dst.data<float>(), columns, 1, rows, columns, diff_bias.data<float>());
  }

 private:
  const Gemm* gemm(Verb v) const {
    const Gemm& p = v == Verb::backward_data ? data_ : weights_;
    return v != Verb::forward && p ? &p : nullptr;
  }

  TensorDesc operand(Verb v, Role r, const TensorDesc& d) const { return d.with(layout(v, r)); }

  /// For large plain operands. oneDNN's backward of an inner product reads its second matrix in the given layout; a
  /// matrix product can pack this matrix first.
  void make_gemms() {
    constexpr std::int64_t large = 1 << 16;  // elements of the weights; for fewer, packing does not pay
    if (d_.weights.elements() < large || d_.src.shape[0] < 128) return;
    using enum ops::Role;
    const auto plain = [](const TensorDesc& t) { return t.layout.is_plain(t.shape); };
    if (d_.diff_src) {
      const auto y = operand(Verb::backward_data, diff_dst, d_.dst),
                 w = operand(Verb::backward_data, weights, d_.weights),
                 x = operand(Verb::backward_data, diff_src, d_.src);
      if (plain(y) && plain(w) && plain(x)) data_ = Gemm(library_, y, w, x, 1);
    }
    const auto y = operand(Verb::backward_weights, diff_dst, d_.dst),
               w = operand(Verb::backward_weights, diff_weights, d_.weights),
               x = operand(Verb::backward_weights, src, d_.src);
    if (!plain(y) || !plain(w) || !plain(x)) return;
    weights_ = Gemm(library_, y.transposed(), x, w, 1);
  }

  const SmallGemm* small(Verb v) const {
    const auto& p = small_[static_cast<std::size_t>(v)];
    return p ? &*p : nullptr;
  }

  /// Factor of negative results.
  float alpha() const {
    switch (in_product_.kind) {
      case ops::EltwiseKind::relu:
        return 0;
      case ops::EltwiseKind::leaky_relu:
        return in_product_.alpha;
      default:
        return 1;
    }
  }

  /// For small plain f32 operands.
  void make_small_gemms() {
    using enum ops::Role;
    const std::int64_t n = d_.src.shape[0], in = d_.src.shape[1], out = d_.dst.shape[1];
    const auto offer = [&](Verb v, std::initializer_list<Role> roles, const SmallGemm& g) {
      const bool plain = std::ranges::all_of(roles, [&](Role r) {
        const Shape shape = r == weights || r == diff_weights ? d_.weights.shape
                            : r == dst || r == diff_dst       ? d_.dst.shape
                                                              : d_.src.shape;
        return layout(v, r).is_plain(shape);
      });
      if (plain && g.is_small()) small_[static_cast<std::size_t>(v)] = g;
    };
    if (d_.src.dtype != DType::f32) return;
    const auto kind = in_product_.kind;
    if (kind == ops::EltwiseKind::identity || kind == ops::EltwiseKind::relu || kind == ops::EltwiseKind::leaky_relu)
      offer(Verb::forward, {src, weights, dst}, {n, out, in, in, 1, true});
    if (!d_.training) return;
    if (d_.diff_src) offer(Verb::backward_data, {diff_dst, weights, diff_src}, {n, in, out, out, 1, false});
    offer(Verb::backward_weights, {src, diff_dst, diff_weights}, {out, in, n, 1, out, false});
  }

  ops::EltwiseParams in_product_ = d_.params.activation;  ///< what the product applies
  std::unique_ptr<ops::Eltwise> activation_;              ///< what is applied after it; or null
  Gemm data_, weights_;
  std::optional<SmallGemm> small_[3];  ///< by the number of the verb
};

}  // namespace

std::unique_ptr<ops::Dense> make_dense(const LibraryPtr& library, const ops::DenseDesc& d) {
  if (d.src.shape.rank() != 2) decline("src has rank {}, expected (N, in)", d.src.shape.rank());
  return std::make_unique<Dense>(library, d);
}

}  // namespace keelson::onednn
