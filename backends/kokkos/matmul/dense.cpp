#include "engine/ops/dense.hpp"

#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/matmul/column_sums.hpp"
#include "backends/kokkos/matmul/gemm.hpp"
#include "backends/kokkos/matmul/packed_products.hpp"
#include "backends/kokkos/norm/channels.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

namespace {

using namespace ops;

class KokkosDense : public Dense {
 public:
  explicit KokkosDense(const DenseDesc& d)
      : desc_(d),
        batch_(d.src.shape[0]),
        in_(d.src.shape[1]),
        out_(d.dst.shape[1]),
        src_(strides_of(d.src)),
        weights_(strides_of(d.weights)),
        dst_(strides_of(d.dst)),
        forward_(batch_, out_, in_, src_, weights_.transposed(), dst_),
        backward_data_(batch_, in_, out_, dst_, weights_, src_),
        backward_weights_(out_, in_, batch_, dst_.transposed(), src_, weights_) {}

  Layout layout(Verb, Role r) const override { return weighted_layout(desc_, r); }

  std::string name(Verb v) const override { return product(v).name(); }
  bool is_packed(Verb v) const { return product(v).is_packed(); }
  std::size_t scratch_bytes(Verb v) const override {
    const bool sums = v == Verb::backward_weights && desc_.params.bias && by_channels();
    return align64(product(v).scratch_bytes()) + (sums ? channel_sums_scratch(batch_, out_) : 0);
  }
  Cost cost(Verb v) const override {
    const Index bias = desc_.params.bias && v != Verb::backward_data ? out_ : 0;
    const auto bytes = desc_.src.bytes() + desc_.weights.bytes() + desc_.dst.bytes();
    return {dense_flops(desc_), static_cast<double>(bytes) + static_cast<double>(bias) * sizeof(float)};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, weights, bias, dst, scratch] = args;
    constexpr const char* label = "keelson::dense::forward";
    forward_.run(label, src.data<float>(), weights.data<float>(), desc_.params.bias ? bias.data<float>() : nullptr,
                 desc_.params.activation, dst.data<float>(), static_cast<float*>(scratch.raw()));
  }

  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [diff_dst, weights, diff_src, scratch] = args;
    constexpr const char* label = "keelson::dense::backward_data";
    backward_data_.run(label, diff_dst.data<float>(), weights.data<float>(), nullptr, {}, diff_src.data<float>(),
                       static_cast<float*>(scratch.raw()));
  }

  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    const auto& [src, diff_dst, diff_weights, diff_bias, scratch] = args;
    constexpr const char* label = "keelson::dense::backward_weights";
    backward_weights_.run(label, diff_dst.data<float>(), src.data<float>(), nullptr, {}, diff_weights.data<float>(),
                          static_cast<float*>(scratch.raw()));
    if (!desc_.params.bias) return;
    if (by_channels())
      channel_sums(diff_dst.raw(), DType::f32, batch_, out_, diff_bias.data<float>(),
                   static_cast<std::byte*>(scratch.raw()) + align64(backward_weights_.scratch_bytes()));
    else
      column_sums(diff_dst.data<float>(), dst_.row, dst_.column, batch_, out_, diff_bias.data<float>());
  }

 private:
  /// On a GPU, a column is too much work for one work item.
  bool by_channels() const { return !runs_on_host && desc_.dst.layout.is_plain(desc_.dst.shape); }
  const Gemm& product(Verb v) const {
    return v == Verb::forward ? forward_ : v == Verb::backward_data ? backward_data_ : backward_weights_;
  }

  DenseDesc desc_;
  Index batch_, in_, out_;
  MatrixStrides src_, weights_, dst_;
  Gemm forward_, backward_data_, backward_weights_;
};

}  // namespace

Expected<Dense> make(const DenseDesc& desc) {
  DenseDesc d = desc;
  for (const auto& [name, t] : {std::pair{"src", &d.src}, {"weights", &d.weights}, {"dst", &d.dst}}) {
    if (auto why = not_strided_f32(name, *t); !why.empty()) return why;
    if (t->shape.rank() != 2) return fmt::format("{} has shape {}, expected a matrix", name, to_string(t->shape));
  }
  const auto &s = d.src.shape, &w = d.weights.shape;
  if (s[1] != w[1] || !(d.dst.shape == Shape{s[0], w[0]}))
    return fmt::format("src {}, weights {} and dst {} do not fit together", to_string(s), to_string(w),
                       to_string(d.dst.shape));
  if (d.training && !derivative_from_dst(d.params.activation))
    return to_string(d.params.activation) + " cannot be fused in training: its derivative needs its argument";
  d.src.layout = chosen(d.src, Layout::plain(s));
  d.dst.layout = chosen(d.dst, Layout::plain(d.dst.shape));
  // (in, out): the output columns that forward reads are contiguous.
  d.weights.layout = chosen(d.weights, Layout::strided(w, {1, w[0]}));
  return std::unique_ptr<Dense>(std::make_unique<KokkosDense>(d));
}

Expected<Dense> make_packed_dense(const DenseDesc& desc, Verb verb) {
  auto made = make(desc);
  if (made.primitive && !static_cast<const KokkosDense&>(*made.primitive).is_packed(verb))
    return std::string("the product is too small to pack its matrices");
  return made;
}

}  // namespace keelson::kokkos
