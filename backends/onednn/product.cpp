#include "backends/onednn/product.hpp"

namespace keelson::backends::onednn {
namespace {

using ops::Role;

/// Rows that meet the weights, from which on it pays to rearrange them.
constexpr std::int64_t rows_worth_packing = 128;

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

TensorDesc transposed(const TensorDesc& d) {
  const Shape shape{d.shape[1], d.shape[0]};
  return {shape, d.dtype, Layout::strided(shape, {d.layout.strides()[1], d.layout.strides()[0]})};
}

Product::Product(const SessionPtr& session, const TensorDesc& src, const TensorDesc& weights, const TensorDesc& dst,
                 int uses) {
  const auto src_md = to_desc(src), plain = to_desc(weights), dst_md = to_desc(dst);
  const bool pack = src.shape[0] * uses >= rows_worth_packing;
  const dnnl::matmul::primitive_desc pd(session->engine, src_md, pack ? to_desc(weights.with(Layout::any())) : plain,
                                        dst_md, attributes());
  require_fast(pd, ops::Verb::forward);
  const auto chosen = pd.weights_desc();
  const double flops = 2.0 * static_cast<double>(src.elements()) * static_cast<double>(dst.shape[1]);
  packed_ = {weights.shape, DType::f32, to_layout(chosen, weights.shape)};
  call_ = Call::make<dnnl::matmul>(session, pd, flops);
  call_.bind(Role::src, DNNL_ARG_SRC, src_md, src);
  call_.bind(Role::weights, DNNL_ARG_WEIGHTS, chosen, chosen == plain ? weights : packed_);
  call_.bind(Role::dst, DNNL_ARG_DST, dst_md, dst);
  if (chosen == plain) return;
  const dnnl::reorder::primitive_desc reorder(session->engine, plain, session->engine, chosen);
  pack_ = Call::make<dnnl::reorder>(session, reorder, 0);
  pack_.bind(Role::src, DNNL_ARG_FROM, plain, weights);
  pack_.bind(Role::dst, DNNL_ARG_TO, chosen, packed_);
  pack_.own_scratch();
}

void Product::pack(const Tensor& weights, void* packed) {
  if (!pack_) return;
  const Tensor to(packed_, packed);
  pack_.run({&weights, &to});
}

void Product::run(const Tensor& src, const Tensor& weights, const void* packed, const Tensor& dst, void* scratch) {
  const Tensor kept(packed_, const_cast<void*>(packed));
  const Tensor work(TensorDesc::plain({static_cast<std::int64_t>(scratch_bytes())}, DType::u8), scratch);
  call_.run({&src, pack_ ? &kept : &weights, &dst}, &work);
}

std::size_t Product::all_scratch_bytes() const { return aligned(packed_bytes()) + scratch_bytes(); }

void Product::pack_and_run(const Tensor& src, const Tensor& weights, const Tensor& dst, void* scratch) {
  auto* at = static_cast<std::byte*>(scratch);
  pack(weights, at);
  run(src, weights, packed_bytes() > 0 ? at : nullptr, dst, at + aligned(packed_bytes()));
}

}  // namespace keelson::backends::onednn
