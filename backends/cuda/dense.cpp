#include "engine/ops/dense.hpp"

#include "backends/cuda/gemm.hpp"
#include "backends/cuda/makers.hpp"
#include "backends/kokkos/norm/channels.hpp"
#include "engine/base/align.hpp"

namespace keelson::cuda {

namespace {

using namespace ops;

class CudaDense : public Dense {
 public:
  CudaDense(const LibraryPtr& library, const DenseDesc& d)
      : desc_(d), batch_(d.src.shape[0]), out_(d.dst.shape[1]), rest_(d.params.activation) {
    const auto value = d.src.dtype, result = d.dst.dtype;
    const auto weights = d.weights.transposed();
    // cublasLt's activations differ from ours: its ReLU makes a NaN 0, its GELU is an approximation. So cublasLt adds
    // the bias only if no activation follows; otherwise one kernel does both.
    adds_bias_ = d.params.bias && rest_.kind == EltwiseKind::identity && result == DType::f32;
    if (adds_bias_) adds_bias_ = try_product(forward_, library, d.src, weights, d.dst, {.tf32 = d.tf32, .bias = true});
    if (!adds_bias_) forward_.emplace(library, d.src, weights, d.dst, Gemm::Options{.tf32 = d.tf32});
    if (!d.training) return;
    const TensorDesc diff_dst = as(d.dst, value), diff_src = as(d.src, result),
                     diff_weights = as(d.weights, DType::f32);
    if (d.diff_src) backward_data_.emplace(library, diff_dst, d.weights, diff_src, Gemm::Options{.tf32 = d.tf32});
    backward_weights_.emplace(library, diff_dst.transposed(), d.src, diff_weights, Gemm::Options{.tf32 = d.tf32});
  }

  Layout layout(Verb, Role r) const override { return weighted_layout(desc_, r); }
  std::string name(Verb) const override { return forward_->name(); }
  std::size_t scratch_bytes(Verb v) const override {
    if (v == Verb::forward) return forward_->scratch_bytes();
    if (v == Verb::backward_data) return backward_data_ ? backward_data_->scratch_bytes() : 0;
    return backward_weights_ ? sums_bytes() + backward_weights_->scratch_bytes() : 0;
  }
  Cost cost(Verb v) const override {
    const auto bias = desc_.params.bias && v != Verb::backward_data ? out_ : 0;
    const auto bytes = desc_.src.bytes() + desc_.weights.bytes() + desc_.dst.bytes();
    return {dense_flops(desc_), static_cast<double>(bytes) + static_cast<double>(bias) * sizeof(float)};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, weights, bias, dst, scratch] = args;
    const float* added = desc_.params.bias ? bias.data<float>() : nullptr;
    forward_->run(src.raw(), weights.raw(), added, dst.raw(), scratch.raw());
    if ((added && !adds_bias_) || rest_.kind != EltwiseKind::identity)
      kokkos::add_bias_and_activate(dst.raw(), desc_.dst.dtype, batch_, out_, added, rest_);
  }

  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [diff_dst, weights, diff_src, scratch] = args;
    KEELSON_EXPECT(backward_data_);
    backward_data_->run(diff_dst.raw(), weights.raw(), nullptr, diff_src.raw(), scratch.raw());
  }

  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    const auto& [src, diff_dst, diff_weights, diff_bias, scratch] = args;
    KEELSON_EXPECT(backward_weights_);
    auto* at = static_cast<char*>(scratch.raw());
    backward_weights_->run(diff_dst.raw(), src.raw(), nullptr, diff_weights.raw(), at + sums_bytes());
    if (desc_.params.bias)
      kokkos::channel_sums(diff_dst.raw(), desc_.src.dtype, batch_, out_, diff_bias.data<float>(), at);
  }

 private:
  static TensorDesc as(const TensorDesc& d, DType t) { return {d.shape, t, d.layout}; }

  static bool try_product(std::optional<Gemm>& made, const LibraryPtr& library, const TensorDesc& a,
                          const TensorDesc& b, const TensorDesc& c, Gemm::Options options) {
    try {
      made.emplace(library, a, b, c, options);
      return true;
    } catch (const Unsupported&) {
      return false;
    }
  }

  std::size_t sums_bytes() const { return desc_.params.bias ? align64(kokkos::channel_sums_scratch(batch_, out_)) : 0; }

  DenseDesc desc_;
  std::int64_t batch_, out_;
  EltwiseParams rest_;      ///< the activation after the product
  bool adds_bias_ = false;  ///< the product adds the bias
  std::optional<Gemm> forward_, backward_data_, backward_weights_;
};

std::string unfit(const DenseDesc& d) {
  for (const auto& [name, t] : {std::pair{"src", &d.src}, {"weights", &d.weights}, {"dst", &d.dst}})
    if (t->shape.rank() != 2 || !t->layout.is_strided())
      return fmt::format("{} is {}, expected a strided matrix", name, to_string(*t));
  if (!d.dst.layout.is_plain(d.dst.shape)) return "the rows of dst are not contiguous";
  if (d.training && !derivative_from_dst(d.params.activation))
    return to_string(d.params.activation) + " cannot be fused in training: its derivative needs its argument";
  return "";
}

}  // namespace

Expected<Dense> make_dense(const LibraryPtr& library, const DenseDesc& desc) {
  auto d = desc;
  for (auto* t : {&d.src, &d.weights, &d.dst})
    if (t->layout.is_any()) t->layout = Layout::plain(t->shape);
  if (auto why = unfit(d); !why.empty()) return why;
  try {
    return std::unique_ptr<Dense>(std::make_unique<CudaDense>(library, d));
  } catch (const Unsupported& why) {
    return std::string(why.what());
  }
}

}  // namespace keelson::cuda
