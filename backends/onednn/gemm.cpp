#include "backends/onednn/gemm.hpp"

#include "engine/base/align.hpp"

namespace keelson::onednn {
namespace {

using ops::Role;

/// From this number of rows on, it pays to pack the weights.
constexpr std::int64_t rows_worth_packing = 128;

}  // namespace

namespace {

/// A call that copies `from` to `to`. Layout and dtype may differ.
Call make_copy(const LibraryPtr& library, const dnnl::memory::desc& from_md, const TensorDesc& from,
               const dnnl::memory::desc& to_md, const TensorDesc& to) {
  const dnnl::reorder::primitive_desc pd(library->engine, from_md, library->engine, to_md);
  auto call = Call::make<dnnl::reorder>(library, pd, 0);
  call.bind(Role::src, DNNL_ARG_FROM, from_md, from).bind(Role::dst, DNNL_ARG_TO, to_md, to).own_scratch();
  return call;
}

/// A dense layout of the same order, row-major or column-major.
Layout closed_up(const TensorDesc& d) {
  const bool by_columns = d.layout.strides()[0] == 1 && d.layout.strides()[1] != 1;
  return by_columns ? Layout::strided(d.shape, {1, d.shape[0]}) : Layout::plain(d.shape);
}

}  // namespace

Gemm::Gemm(const LibraryPtr& library, const TensorDesc& src, const TensorDesc& weights, const TensorDesc& dst, int uses,
           DType compute) {
  const bool low = compute != DType::f32;
  rounded_ = low ? TensorDesc{src.shape, compute, closed_up(src)} : src;
  const auto src_md = to_desc(rounded_), plain = to_desc(weights), dst_md = to_desc(dst);
  const bool pack = low || src.shape[0] * uses >= rows_worth_packing;
  const auto wanted = pack ? to_desc({weights.shape, compute, Layout::any()}) : plain;
  const dnnl::matmul::primitive_desc pd(library->engine, src_md, wanted, dst_md, attributes());
  require_fast(pd, ops::Verb::forward);
  const auto chosen = pd.weights_desc();
  const double flops = 2.0 * static_cast<double>(src.elements()) * static_cast<double>(dst.shape[1]);
  packed_ = {weights.shape, compute, to_layout(chosen, weights.shape)};
  call_ = Call::make<dnnl::matmul>(library, pd, flops);
  call_.bind(Role::src, DNNL_ARG_SRC, src_md, rounded_);
  call_.bind(Role::weights, DNNL_ARG_WEIGHTS, chosen, chosen == plain ? weights : packed_);
  call_.bind(Role::dst, DNNL_ARG_DST, dst_md, dst);
  if (chosen != plain) pack_ = make_copy(library, plain, weights, chosen, packed_);
  if (low) round_ = make_copy(library, to_desc(src), src, src_md, rounded_);
}

std::size_t Gemm::scratch_bytes() const { return (round_ ? align64(rounded_.bytes()) : 0) + call_.scratch_bytes(); }

void Gemm::pack(const Tensor& weights, void* packed) {
  if (!pack_) return;
  const Tensor to(packed_, packed);
  pack_.run({&weights, &to});
}

void Gemm::run(const Tensor& src, const Tensor& weights, const void* packed, const Tensor& dst, void* scratch) {
  auto* at = static_cast<std::byte*>(scratch);
  const Tensor kept(packed_, const_cast<void*>(packed)), rounded(rounded_, at);
  if (round_) {
    round_.run({&src, &rounded});
    at += align64(rounded_.bytes());
  }
  const Tensor work(TensorDesc::plain({static_cast<std::int64_t>(call_.scratch_bytes())}, DType::u8), at);
  call_.run({round_ ? &rounded : &src, pack_ ? &kept : &weights, &dst}, &work);
}

std::size_t Gemm::all_scratch_bytes() const { return align64(packed_bytes()) + scratch_bytes(); }

void Gemm::pack_and_run(const Tensor& src, const Tensor& weights, const Tensor& dst, void* scratch) {
  auto* at = static_cast<std::byte*>(scratch);
  pack(weights, at);
  run(src, weights, packed_bytes() > 0 ? at : nullptr, dst, at + align64(packed_bytes()));
}

}  // namespace keelson::onednn
