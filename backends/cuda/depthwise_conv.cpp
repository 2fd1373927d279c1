#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "backends/cuda/makers.hpp"
#include "backends/kokkos/conv/depthwise_device.hpp"
#include "backends/kokkos/norm/channels.hpp"
#include "engine/base/align.hpp"

namespace keelson::cuda {

namespace {

using namespace ops;

/// Each verb by the faster of cuDNN and Keelson's own kernels. The gradient of src is cuDNN's.
class DepthwiseConv : public Conv {
 public:
  DepthwiseConv(const LibraryPtr& library, const ConvDesc& d, std::unique_ptr<Conv> by_library)
      : d_(d), library_(std::move(by_library)), own_(d) {
    for (const Verb v : {Verb::forward, Verb::backward_weights}) choose(*library, v);
  }

  Layout layout(Verb v, Role r) const override { return library_->layout(v, r); }
  // The same name and scratch for both: ranks with different tuning caches compare their plans.
  std::string name(Verb) const override { return "cudnn or nhwc"; }
  std::size_t scratch_bytes(Verb v) const override {
    const std::size_t own = v == Verb::forward            ? own_.forward_scratch_bytes()
                            : v == Verb::backward_weights ? own_.weights_scratch_bytes()
                                                          : 0;
    return std::max(library_->scratch_bytes(v), own);
  }
  Cost cost(Verb v) const override { return library_->cost(v); }

  void forward(const Forward<ops::Tensors>& args) override {
    if (!takes_own(Verb::forward)) return library_->forward(args);
    own_.forward(args.src.raw(), args.weights.raw(), args.dst.raw(), args.scratch.raw());
    const auto channels = d_.dst.shape[1];
    kokkos::add_bias_and_activate(args.dst.raw(), d_.dst.dtype, d_.dst.elements() / channels, channels,
                                  d_.params.bias ? args.bias.data<float>() : nullptr, d_.params.activation);
  }
  void backward_data(const BackwardData<ops::Tensors>& args) override { library_->backward_data(args); }
  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    if (!takes_own(Verb::backward_weights)) return library_->backward_weights(args);
    own_.backward_weights(args.src.raw(), args.diff_dst.raw(), args.diff_weights.data<float>(), args.scratch.raw());
  }

 private:
  bool& takes_own(Verb v) { return takes_own_[static_cast<std::size_t>(v)]; }

  void choose(Library& library, Verb v) {
    if (v == Verb::backward_weights && !(d_.training && d_.diff_weights)) return;
    const auto key = fmt::format("depthwise {} {}{}", to_string(v), describe(d_), d_.tf32 ? " tf32" : "");
    GpuMemory memory;
    const auto trial = [&](std::size_t candidate) {
      const std::array bytes{align64(d_.src.bytes()), align64(d_.dst.bytes()),
                             align64(static_cast<std::size_t>(d_.weights.elements()) * sizeof(float)),
                             align64(static_cast<std::size_t>(d_.dst.shape[1]) * sizeof(float)),
                             align64(scratch_bytes(v))};
      if (!memory) memory = trial_memory(bytes[0] + bytes[1] + bytes[2] + bytes[3] + bytes[4]);
      if (!memory) throw NoTrialMemory();
      auto* at = static_cast<std::byte*>(memory.get());
      auto next = [&at, &bytes, i = std::size_t{0}]() mutable { return std::exchange(at, at + bytes[i++]); };
      takes_own(v) = candidate == 1;
      const auto type = v == Verb::forward ? d_.weights.dtype : DType::f32;
      const Tensor src(d_.src, next()), dst(d_.dst, next());
      const Tensor weights({d_.weights.shape, type, layout(v, Role::weights)}, next());
      const Tensor bias(TensorDesc::plain({d_.dst.shape[1]}), next());
      const Tensor scratch(TensorDesc::plain({static_cast<std::int64_t>(bytes[4])}, DType::u8), next());
      if (v == Verb::forward)
        forward({src, weights, d_.params.bias ? bias : Tensor(), dst, scratch});
      else
        backward_weights({src, dst, weights, Tensor(), scratch});
      return true;
    };
    std::optional<std::size_t> best;
    try {
      best = library.autotuner.choose(key, "", {"cudnn", "nhwc"}, {trial});
    } catch (const NoTrialMemory&) {
    }
    takes_own(v) = best == 1;
  }

  ConvDesc d_;
  std::unique_ptr<Conv> library_;
  kokkos::DepthwiseDevice own_;
  std::array<bool, 3> takes_own_{};  ///< by verb
};

}  // namespace

std::unique_ptr<Conv> with_depthwise_kernels(const LibraryPtr& library, const ConvDesc& desc,
                                             std::unique_ptr<Conv> by_library) {
  ConvDesc d = desc;
  const auto layout = [&](Role r) { return by_library->layout(Verb::forward, r); };
  d.src.layout = layout(Role::src), d.weights.layout = layout(Role::weights), d.dst.layout = layout(Role::dst);
  if (!kokkos::DepthwiseDevice::unfit(d).empty() || !d.src.layout.is_channels_last(d.src.shape)) return by_library;
  return std::make_unique<DepthwiseConv>(library, d, std::move(by_library));
}

}  // namespace keelson::cuda
