#include "backends/cuda/cudnn_conv.hpp"

#include <cstdint>
#include <map>
#include <optional>

#include "backends/common/unsupported.hpp"
#include "backends/cuda/instance.hpp"
#include "backends/cuda/makers.hpp"
#include "backends/cuda/padded_channels.hpp"
#include "backends/kokkos/norm/channels.hpp"

namespace keelson::cuda {

namespace {

using namespace ops;

/// Alignment of the parts of scratch memory. A plan's scratch is aligned to 64 bytes only; libraries expect the
/// alignment of cudaMalloc.
constexpr std::size_t alignment = 256;

constexpr std::size_t align(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

std::size_t bytes_of(const Shape& s, DType t) { return static_cast<std::size_t>(s.elements()) * size_of(t); }

void* part(void* scratch, std::size_t offset) {
  return reinterpret_cast<void*>(align(reinterpret_cast<std::uintptr_t>(scratch)) + offset);
}

}  // namespace

Cudnn& Library::cudnn() {
  const auto stream = current_stream();
  const std::scoped_lock lock(mutex_);
  auto& entry = cudnn_[stream];
  if (!entry) entry = std::make_shared<Cudnn>(stream);
  return *entry;
}

/// Memory to run candidates in, and the plans that were made for them.
class CudnnConvVerb::Trial {
 public:
  explicit Trial(CudnnConvVerb& verb) : verb_(verb) {}

  /// False if the engine does not run, or needs more memory than is free.
  bool run(std::size_t number, const Candidate& c) {
    if (!memory_) make_operands();
    try {
      auto& plan = plans_[number];
      if (!plan) plan = verb_.make_plan(c);
      const auto needed = verb_.parts_of(*c.variant, plan->workspace_bytes()).end;
      if (needed > scratch_bytes_) {
        auto more = trial_memory(needed);
        if (!more) return false;
        scratch_.push_back(std::move(more));
        scratch_bytes_ = needed;
      }
      verb_.run(*c.variant, *plan, operands_, scratch_.empty() ? nullptr : scratch_.back().get());
      return true;
    } catch (const backends::Unsupported&) {
      return false;
    }
  }

  std::unique_ptr<CudnnPlan> take(std::size_t number) { return std::move(plans_[number]); }

 private:
  void make_operands() {
    const auto& d = verb_.d_;
    const std::size_t sizes[] = {
        static_cast<std::size_t>(verb_.src_rows_ * verb_.src_channels_) * size_of(verb_.types_.src),
        bytes_of(d.weights.shape, verb_.types_.weights), bytes_of({d.dst.shape[1]}, DType::f32),
        bytes_of(d.dst.shape, verb_.types_.dst)};
    std::size_t bytes = 0;
    for (auto s : sizes) bytes += align(s);
    memory_ = trial_memory(bytes);
    if (!memory_) throw NoTrialMemory();
    auto* at = static_cast<char*>(memory_.get());
    for (auto [operand, size] : {std::pair{&operands_.src, sizes[0]},
                                 {&operands_.weights, sizes[1]},
                                 {&operands_.bias, sizes[2]},
                                 {&operands_.dst, sizes[3]}}) {
      *operand = at;
      at += align(size);
    }
  }

  CudnnConvVerb& verb_;
  GpuMemory memory_;
  std::vector<GpuMemory> scratch_;  ///< the last one is in use; recorded runs may still use earlier ones
  std::size_t scratch_bytes_ = 0;
  ConvOperands operands_;
  std::map<std::size_t, std::unique_ptr<CudnnPlan>> plans_;
};

CudnnConvVerb::CudnnConvVerb(const LibraryPtr& library, const ConvDesc& d, Verb verb)
    : library_(library),
      d_(d),
      verb_(verb),
      types_(conv_types(d, verb)),
      target_(library->cudnn().handle()),
      src_channels_(std::max(d.src.shape[1], PaddedChannels::channels_of(d.src.layout))),
      src_rows_(d.src.elements() / d.src.shape[1]),
      dst_rows_(d.dst.elements() / d.dst.shape[1]),
      weight_rows_(d.weights.elements() / d.weights.shape[1]) {
  find_or_choose();
}

/// Takes what was chosen for an equal convolution, if there was one.
void CudnnConvVerb::find_or_choose() {
  const auto key = fmt::format("{} {}{} within {} bytes", to_string(verb_), describe(d_), d_.tf32 ? " tf32" : "",
                               workspace_limit(*library_));
  const auto here = fmt::format("{}, handle {}", key, static_cast<const void*>(library_->cudnn().handle()));
  if (const auto known = library_->known_choice(here)) {
    variant_ = known->variant;
    plan_ = known->plan->share();
    return;
  }
  choose(key);
  library_->keep_choice(here, std::make_shared<CudnnChoice>(variant_, plan_->share()));
}

/// The plan of an engine. Throws Unsupported if the workspace is over the limit, or the engine does not run.
std::unique_ptr<CudnnPlan> CudnnConvVerb::make_plan(const Candidate& c) const {
  auto plan = std::make_unique<CudnnPlan>(*c.engine, target_);
  if (plan->workspace_bytes() > workspace_limit(*library_))
    backends::decline("{} needs {} bytes of workspace", plan->name(), plan->workspace_bytes());
  return plan;
}

void CudnnConvVerb::choose(const std::string& key) {
  const auto variants = conv_variants(d_, verb_, target_);
  std::vector<Candidate> all;
  std::vector<std::string> names;
  for (const auto& variant : variants)
    for (const auto& e : variant.engines) {
      all.push_back({&variant, &e});
      names.push_back(variant.name + e.name);
    }
  if (all.empty()) backends::decline("no engine of cuDNN {} supports this convolution", cudnnGetVersion());
  Trial trial(*this);
  std::optional<std::size_t> best;
  try {
    best = library_->autotuner.choose(key, "", names, {[&](std::size_t i) { return trial.run(i, all[i]); }});
  } catch (const NoTrialMemory&) {
    best = 0;
  }
  if (!best) backends::decline("none of the {} engines that cuDNN {} proposes runs", all.size(), cudnnGetVersion());
  // Some proposals cannot be made, and not all were tried: find one that can be made.
  std::string why;
  for (std::size_t i = 0; i <= all.size(); ++i) {
    const auto number = i == 0 ? *best : i - 1;
    try {
      plan_ = trial.take(number);
      if (!plan_) plan_ = make_plan(all[number]);
      variant_ = *all[number].variant;
      variant_.engines.clear();  // the plan keeps its own
      return;
    } catch (const backends::Unsupported& e) {
      why = e.what();
    }
  }
  backends::decline("none of {} engines of cuDNN {} can be made ready; the last one: {}", all.size(), cudnnGetVersion(),
                    why);
}

bool CudnnConvVerb::copies_weights(const ConvVariant& v) const {
  return pads(v) || (verb_ == Verb::backward_weights && v.types.weights != DType::f32);
}

CudnnConvVerb::Parts CudnnConvVerb::parts_of(const ConvVariant& v, std::size_t workspace) const {
  Parts p;
  p.src = p.end;
  if (copies_src(v)) p.end += align(bytes_of(v.padded.src.shape, v.types.src));
  p.weights = p.end;
  if (copies_weights(v)) p.end += align(bytes_of(v.padded.weights.shape, v.types.weights));
  p.sums = p.end;
  if (verb_ == Verb::backward_weights && d_.writes_diff_bias())
    p.end += align(kokkos::channel_sums_scratch(dst_rows_, d_.dst.shape[1]));
  p.workspace = p.end;
  p.end += workspace;
  if (p.end > 0) p.end += alignment;  // part() begins at the first aligned byte
  return p;
}

void CudnnConvVerb::run(const ConvVariant& v, CudnnPlan& plan, const ConvOperands& o, void* scratch) const {
  const auto parts = parts_of(v, plan.workspace_bytes());
  ConvOperands used = o;
  if (copies_src(v)) {
    used.src = part(scratch, parts.src);
    kokkos::copy_channels(o.src, v.types.src, d_.src.shape[1], used.src, v.types.src, v.padded.src.shape[1], src_rows_);
  }
  if (copies_weights(v)) {
    used.weights = part(scratch, parts.weights);
    if (verb_ == Verb::forward)
      kokkos::copy_channels(o.weights, v.types.weights, d_.weights.shape[1], used.weights, v.types.weights,
                            v.padded.weights.shape[1], weight_rows_);
  }
  const std::int64_t uids[] = {conv_src, conv_weights, conv_dst, conv_bias};
  void* const pointers[] = {used.src, used.weights, used.dst, used.bias};
  const std::size_t count = v.epilogue == Epilogue::bias_activation && d_.params.bias ? 4 : 3;
  plan.execute(library_->cudnn().handle(), std::span(uids, count), std::span(pointers, count),
               plan.workspace_bytes() > 0 ? part(scratch, parts.workspace) : nullptr);
  if (verb_ == Verb::forward && v.epilogue == Epilogue::none)
    kokkos::add_bias_and_activate(o.dst, v.types.dst, dst_rows_, d_.dst.shape[1],
                                  d_.params.bias ? static_cast<const float*>(o.bias) : nullptr, d_.params.activation);
  if (verb_ == Verb::backward_weights) {
    if (copies_weights(v))
      kokkos::copy_channels(used.weights, v.types.weights, v.padded.weights.shape[1], o.weights, DType::f32,
                            d_.weights.shape[1], weight_rows_);
    if (d_.writes_diff_bias())
      kokkos::channel_sums(o.dst, v.types.dst, dst_rows_, d_.dst.shape[1], static_cast<float*>(o.bias),
                           part(scratch, parts.sums));
  }
}

namespace {

class CudnnConv : public Conv {
 public:
  CudnnConv(const LibraryPtr& library, const ConvDesc& d) : d_(d), forward_(library, d, Verb::forward) {
    ConvDesc of_data = d;
    of_data.src.layout = Layout::channels_last(d.src.shape);  // the layer before reads this layout
    if (d.training && d.diff_src) data_ = std::make_unique<CudnnConvVerb>(library, of_data, Verb::backward_data);
    if (d.training && d.diff_weights) weights_ = std::make_unique<CudnnConvVerb>(library, d, Verb::backward_weights);
  }

  Layout layout(Verb, Role r) const override {
    if (r == Role::src) return d_.src.layout;
    if (r == Role::diff_src) return Layout::channels_last(d_.src.shape);
    if (r == Role::weights || r == Role::diff_weights) return Layout::channels_last(d_.weights.shape);
    if (r == Role::dst || r == Role::diff_dst) return Layout::channels_last(d_.dst.shape);
    return Layout::plain({d_.dst.shape[1]});
  }

  // Not the engine's name: ranks with different tuning caches compare their plans.
  std::string name(Verb) const override { return "cudnn"; }

  std::size_t scratch_bytes(Verb v) const override {
    if (v == Verb::forward) return forward_.scratch_bytes();
    const auto& verb = v == Verb::backward_data ? data_ : weights_;
    return verb ? verb->scratch_bytes() : 0;
  }

  Cost cost(Verb v) const override {
    const auto types = conv_types(d_, v);
    const auto bytes = bytes_of(d_.src.shape, types.src) + bytes_of(d_.weights.shape, types.weights) +
                       bytes_of(d_.dst.shape, types.dst);
    return {conv_flops(d_), static_cast<double>(bytes)};
  }

  void forward(const Forward<ops::Tensors>& args) override {
    const auto& [src, weights, bias, dst, scratch] = args;
    forward_.run({src.raw(), weights.raw(), bias.raw(), dst.raw()}, scratch.raw());
  }
  void backward_data(const BackwardData<ops::Tensors>& args) override {
    const auto& [diff_dst, weights, diff_src, scratch] = args;
    KEELSON_EXPECT(data_);
    data_->run({diff_src.raw(), weights.raw(), nullptr, diff_dst.raw()}, scratch.raw());
  }
  void backward_weights(const BackwardWeights<ops::Tensors>& args) override {
    const auto& [src, diff_dst, diff_weights, diff_bias, scratch] = args;
    KEELSON_EXPECT(weights_);
    weights_->run({src.raw(), diff_weights.raw(), diff_bias.raw(), diff_dst.raw()}, scratch.raw());
  }

 private:
  ConvDesc d_;
  CudnnConvVerb forward_;
  std::unique_ptr<CudnnConvVerb> data_, weights_;
};

std::string unfit(const ConvDesc& d) {
  const int spatial = d.src.shape.rank() - 2;
  if (spatial < 1 || spatial > 3) return fmt::format("{} spatial dims; cuDNN convolves over 1 to 3", spatial);
  for (const auto& [name, t] : {std::pair{"src", &d.src}, {"weights", &d.weights}, {"dst", &d.dst}})
    if (!t->layout.is_any() && !(t->layout == Layout::channels_last(t->shape)))
      return fmt::format("{} is {}, not channels-last", name, t->layout.describe(t->shape));
  if (d.src.dtype != d.weights.dtype)
    return fmt::format("src is {}, weights are {}", to_string(d.src.dtype), to_string(d.weights.dtype));
  if (d.src.dtype != DType::f32 && !is_half(d.src.dtype)) return fmt::format("src is {}", to_string(d.src.dtype));
  if (d.dst.dtype != DType::f32 && d.dst.dtype != d.src.dtype)
    return fmt::format("dst is {}, expected f32 or {}", to_string(d.dst.dtype), to_string(d.src.dtype));
  if (d.training && !derivative_from_dst(d.params.activation))
    return to_string(d.params.activation) + " cannot be fused in training: its derivative needs its argument";
  return "";
}

}  // namespace

Expected<Conv> make_cudnn_conv(const LibraryPtr& library, const ConvDesc& d) {
  if (cudnnGetVersion() >= 91100 && library->gpu.architecture < 75)
    return fmt::format("cuDNN {} has no kernels for sm_{}; cuDNN 9.10 for CUDA 12 is the last one that has",
                       cudnnGetVersion(), library->gpu.architecture);
  if (auto why = unfit(d); !why.empty()) return why;
  ConvDesc fixed = d;
  for (auto* t : {&fixed.src, &fixed.weights, &fixed.dst}) t->layout = Layout::channels_last(t->shape);
  // The producer of src pads once, instead of each verb.
  if (const auto channels = padded_channels(d); d.src.layout.is_any() && channels != d.src.shape[1])
    fixed.src.layout = PaddedChannels::layout(d.src.shape, d.src.dtype, channels);
  try {
    return std::unique_ptr<Conv>(std::make_unique<CudnnConv>(library, fixed));
  } catch (const backends::Unsupported& e) {  // other errors are failures
    return std::string(e.what());
  }
}

}  // namespace keelson::cuda
