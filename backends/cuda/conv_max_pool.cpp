#include "engine/ops/conv_max_pool.hpp"

#include <algorithm>
#include <optional>

#include "backends/cuda/makers.hpp"
#include "backends/cuda/padded_channels.hpp"
#include "backends/cuda/pooled_conv.hpp"
#include "backends/kokkos/makers.hpp"
#include "backends/kokkos/pool/conv_max_pool_device.hpp"
#include "engine/base/align.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::cuda {

namespace {

using namespace ops;

TensorDesc channels_last(const Shape& s, DType t) { return {s, t, Layout::channels_last(s)}; }

/// The addresses of the operands of one call.
struct Operands {
  void *src, *diff_dst, *argmax;
  float* diff_weights;
  std::byte* scratch;
};

/// The gradient of the weights by one of two algorithms: from the argmax indices, or from the dense gradient of the
/// convolution's result, which is zero in most elements.
class ArgmaxOrDense : public ConvMaxPoolBackward {
 public:
  /// `unpooled`: the convolution's result, which `pool` reads.
  ArgmaxOrDense(const LibraryPtr& library, const ConvMaxPoolDesc& d, const TensorDesc& unpooled,
                std::unique_ptr<Pool> pool, std::unique_ptr<Conv> conv, std::int64_t channels)
      : d_(d), unpooled_(unpooled), pool_(std::move(pool)), conv_(std::move(conv)), argmax_(d, channels) {
    choose(*library);
  }

  /// Whether a candidate runs.
  bool runs() const { return candidate_.has_value(); }

  Layout layout(Verb, Role r) const override { return weighted_layout(d_, r); }
  // The same name for both candidates, and the same scratch: ranks with different tuning caches compare their plans.
  std::string name(Verb) const override { return "argmax or dense"; }
  std::size_t scratch_bytes(Verb v) const override {
    if (v != Verb::backward_weights) return 0;
    return std::max(argmax_.scratch_bytes(), dense_bytes());
  }
  Cost cost(Verb) const override { return argmax_.cost(); }

  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    const auto& [src, diff_dst, workspace, diff_weights, diff_bias, scratch] = args;
    run(*candidate_, {src.raw(), diff_dst.raw(), workspace.raw(), diff_weights.data<float>(),
                      static_cast<std::byte*>(scratch.raw())});
  }
  void backward_data(const BackwardData<ops::Tensors>&) override {
    fail("the gradient of src was not requested: {}", describe(d_));
  }

 private:
  enum Candidate : std::size_t { dense, by_argmax };

  std::size_t dense_bytes() const {
    return align64(unpooled_.bytes()) +
           std::max(pool_->scratch_bytes(Verb::backward_data), conv_->scratch_bytes(Verb::backward_weights));
  }

  void run(std::size_t candidate, const Operands& o) const {
    if (candidate == by_argmax) return argmax_.run(o.src, o.diff_dst, o.argmax, o.diff_weights, o.scratch);
    const auto bytes = static_cast<std::int64_t>(dense_bytes() - align64(unpooled_.bytes()));
    const Tensor unpooled(unpooled_, o.scratch), diff_dst(d_.dst, o.diff_dst), src(d_.src, o.src),
        weights(d_.weights, o.diff_weights),
        scratch(TensorDesc::plain({bytes}, DType::u8), o.scratch + align64(unpooled_.bytes())),
        argmax(TensorDesc::plain({d_.dst.elements()}, DType::u8), o.argmax);
    pool_->backward_data({.diff_dst = diff_dst, .workspace = argmax, .diff_src = unpooled, .scratch = scratch});
    conv_->backward_weights(
        {.src = src, .diff_dst = unpooled, .diff_weights = weights, .diff_bias = {}, .scratch = scratch});
  }

  void choose(Library& library) {
    const auto key = fmt::format("backward weights {}{}", describe(d_), d_.tf32 ? " tf32" : "");
    GpuMemory memory;
    const auto trial = [&](std::size_t candidate) {
      const auto src = align64(d_.src.bytes()), dst = align64(d_.dst.bytes()), indices = align64(dst_elements()),
                 weights = align64(d_.weights.bytes());
      if (!memory) {
        memory = trial_memory(src + dst + indices + weights + align64(scratch_bytes(Verb::backward_weights)));
        if (!memory) throw NoTrialMemory();
        kokkos::fill_argmax(static_cast<std::byte*>(memory.get()) + src + dst, d_.dst.elements(),
                            d_.pool.kernel.elements());
      }
      auto* at = static_cast<std::byte*>(memory.get());
      run(candidate, {at, at + src, at + src + dst, reinterpret_cast<float*>(at + src + dst + indices),
                      at + src + dst + indices + weights});
      return true;
    };
    try {
      candidate_ = library.autotuner.choose(key, "", {"dense", "argmax"}, {trial});
    } catch (const NoTrialMemory&) {
      candidate_ = dense;
    }
  }
  std::size_t dst_elements() const { return static_cast<std::size_t>(d_.dst.elements()); }

  ConvMaxPoolDesc d_;
  TensorDesc unpooled_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Conv> conv_;
  kokkos::ArgmaxWeights argmax_;
  std::optional<std::size_t> candidate_;
};

}  // namespace

Expected<ConvMaxPoolBackward> make_conv_max_pool(const LibraryPtr& library, const ConvMaxPoolDesc& desc) {
  if (auto why = kokkos::unfit_for_argmax_weights(desc); !why.empty()) return why;
  if (auto made = make_pooled_conv_weights(desc, library->gpu.architecture); made.primitive) return made;
  ConvMaxPoolDesc d = desc;
  if (d.weights.layout.is_any()) d.weights.layout = Layout::channels_last(d.weights.shape);
  const auto padded = PaddedChannels::channels_of(d.src.layout);
  if (padded == 0 && !(d.src.layout == Layout::channels_last(d.src.shape)))
    return std::string("src is neither channels-last nor padded");
  const TensorDesc unpooled = channels_last(conv_dst_shape(d.src.shape, d.conv, d.weights.shape[0]), d.dst.dtype);
  auto pool = kokkos::make(PoolDesc{d.pool, unpooled, d.dst, true});
  if (!pool.primitive) return pool.unsupported_reason;
  // Described like the forward convolution with a bias, for which the autotuner has chosen the engines by now.
  ConvDesc conv{d.conv, d.src, {d.weights.shape, d.src.dtype, Layout::any()}, unpooled, true, false, d.tf32, false};
  conv.params.bias = true;
  if (padded > 0) conv.src.layout = Layout::any();
  auto made = make_conv(library, conv);
  if (!made.primitive) return made.unsupported_reason;
  const auto layout = [&](Role r) { return made.primitive->layout(Verb::backward_weights, r); };
  if (!(layout(Role::src) == d.src.layout) || !(layout(Role::diff_dst) == unpooled.layout) ||
      !(layout(Role::diff_weights) == d.weights.layout))
    return std::string("the convolution needs other layouts");
  auto op = std::make_unique<ArgmaxOrDense>(library, d, unpooled, std::move(pool.primitive), std::move(made.primitive),
                                            padded > 0 ? padded : d.src.shape[1]);
  if (!op->runs()) return std::string("neither the dense gradient nor the gradient by argmax indices runs");
  return std::unique_ptr<ConvMaxPoolBackward>(std::move(op));
}

}  // namespace keelson::cuda
