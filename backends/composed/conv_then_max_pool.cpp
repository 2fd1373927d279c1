#include "backends/composed/conv_then_max_pool.hpp"

#include "engine/base/align.hpp"

namespace keelson::composed {

namespace {

using namespace ops;

class ConvThenMaxPool final : public ConvMaxPoolForward {
 public:
  ConvThenMaxPool(const ConvMaxPoolForwardDesc& d, std::unique_ptr<Conv> conv, std::unique_ptr<Pool> pool)
      : d_(d), conv_(std::move(conv)), pool_(std::move(pool)) {}

  Layout layout(Verb v, Role r) const override { return r == Role::dst ? pool_->layout(v, r) : conv_->layout(v, r); }
  std::string name(Verb v) const override { return conv_->name(v) + ", then " + pool_->name(v); }
  std::string_view backend_of(Verb v) const override { return conv_->backend_of(v); }
  double relative_error(Verb v) const override { return conv_->relative_error(v); }
  Cost cost(Verb v) const override {
    const Cost a = conv_->cost(v), b = pool_->cost(v);
    return {a.flops + b.flops, a.bytes + b.bytes};
  }
  std::size_t workspace_bytes() const override { return pool_->workspace_bytes(); }
  std::size_t scratch_bytes(Verb v) const override { return align64(d_.conv.dst.bytes()) + conv_->scratch_bytes(v); }
  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, weights, bias, dst, workspace, scratch] = args;
    auto* const at = static_cast<std::byte*>(scratch.raw());
    const Tensor between(d_.conv.dst, at);
    const auto rest = static_cast<std::int64_t>(conv_->scratch_bytes(Verb::forward));
    conv_->forward(
        {src, weights, bias, between,
         rest > 0 ? Tensor(TensorDesc::plain({rest}, DType::u8), at + align64(d_.conv.dst.bytes())) : Tensor()});
    pool_->forward({between, dst, workspace});
  }

 private:
  ConvMaxPoolForwardDesc d_;
  std::unique_ptr<Conv> conv_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace

Expected<ConvMaxPoolForward> make_conv_then_max_pool(const ConvMaxPoolForwardDesc& d, Context& context) {
  ConvDesc c = d.conv;
  c.training = false;
  auto conv = context.make_by_first(c);
  if (!conv.primitive) return conv.unsupported_reason;
  auto pool = context.make_by_first(PoolDesc{d.pool, c.dst, d.dst, d.training});
  if (!pool.primitive) return pool.unsupported_reason;
  const bool one_byte_each = pool.primitive->workspace_bytes() == static_cast<std::size_t>(d.dst.elements());
  if (d.training && !one_byte_each) return std::string("the pooling keeps no argmax indices of one byte");
  return std::unique_ptr<ConvMaxPoolForward>(
      std::make_unique<ConvThenMaxPool>(d, std::move(conv.primitive), std::move(pool.primitive)));
}

}  // namespace keelson::composed
