#include "engine/ops/matmul.hpp"

#include "backends/onednn/support.hpp"

namespace keelson::backends::onednn {
namespace {

using ops::Role;
using ops::Verb;

/// Rows that meet the weights, from which on it pays to let oneDNN rearrange them first.
constexpr std::int64_t rows_worth_packing = 128;

class MatMul final : public ops::MatMul {
 public:
  MatMul(const SessionPtr& session, const ops::MatMulDesc& d) : desc_(d) {
    const auto src = to_desc(d.src), plain = to_desc(d.weights), dst = to_desc(d.dst);
    const bool pack = d.src.shape[0] * d.uses >= rows_worth_packing;
    const auto wanted = pack ? to_desc(d.weights.with(Layout::any())) : plain;
    using Kind = dnnl::matmul;
    const Kind::primitive_desc pd(session->engine, src, wanted, dst, attributes());
    require_fast(pd, Verb::forward);
    const auto weights = pd.weights_desc();
    call_ = Call::make<Kind>(session, pd, ops::matmul_flops(d));
    call_.bind(Role::src, DNNL_ARG_SRC, src, d.src);
    packed_ = {d.weights.shape, DType::f32, to_layout(weights, d.weights.shape)};
    call_.bind(Role::weights, DNNL_ARG_WEIGHTS, weights, weights == plain ? d.weights : packed_);
    call_.bind(Role::dst, DNNL_ARG_DST, dst, d.dst);
    if (weights == plain) return;
    const dnnl::reorder::primitive_desc reorder(session->engine, plain, session->engine, weights);
    pack_ = Call::make<dnnl::reorder>(session, reorder, 0);
    pack_.bind(Role::src, DNNL_ARG_FROM, plain, d.weights);
    pack_.bind(Role::dst, DNNL_ARG_TO, weights, packed_);
    pack_.own_scratch();
  }

  Layout layout(Verb, Role r) const override {
    return r == Role::src ? desc_.src.layout : r == Role::weights ? desc_.weights.layout : desc_.dst.layout;
  }
  std::string name(Verb) const override { return call_.name(); }
  std::size_t scratch_bytes(Verb) const override { return call_.scratch_bytes(); }
  ops::Cost cost(Verb) const override { return call_.cost(); }

  std::size_t packed_bytes() const override { return pack_ ? packed_.bytes() : 0; }
  void pack(const Tensor& weights, void* packed) override {
    if (!pack_) return;
    const Tensor to(packed_, packed);
    pack_.run({&weights, &to});
  }
  void forward(const Tensor& src, const Tensor& weights, const void* packed, const Tensor& dst,
               void* scratch) override {
    const Tensor kept(packed_, const_cast<void*>(packed));
    const Tensor work(TensorDesc::plain({static_cast<std::int64_t>(call_.scratch_bytes())}, DType::u8), scratch);
    call_.run({&src, pack_ ? &kept : &weights, &dst}, &work);
  }

 private:
  ops::MatMulDesc desc_;
  TensorDesc packed_;
  Call call_, pack_;
};

}  // namespace

std::unique_ptr<ops::MatMul> make_matmul(const SessionPtr& session, const ops::MatMulDesc& desc) {
  auto d = desc;
  for (TensorDesc* t : {&d.src, &d.weights, &d.dst}) {
    if (t->shape.rank() != 2) decline("an operand has rank {}, expected a matrix", t->shape.rank());
    if (t->layout.is_any()) t->layout = Layout::plain(t->shape);
    if (!t->layout.is_strided()) decline("an operand is not strided");
  }
  return std::make_unique<MatMul>(session, d);
}

}  // namespace keelson::backends::onednn
