#include "backends/cuda/cudnn_conv_variants.hpp"

#include "backends/common/shortlist.hpp"

#include "backends/cuda/padded_channels.hpp"

namespace keelson::cuda {

namespace {

using namespace ops;

/// Whether bias and activation are worth trying within the graph. This saves one pass over dst. But the engines that
/// support it compile their kernels when the plan is made, in every process, so that it pays only for a large dst.
bool may_fuse(const ConvDesc& d, const ConvTypes& types) {
  constexpr std::size_t large = std::size_t{16} << 20;
  return (d.params.bias || d.params.activation.kind != EltwiseKind::identity) &&
         not_fusible(d.params.activation).empty() &&
         static_cast<std::size_t>(d.dst.elements()) * size_of(types.dst) >= large;
}

/// How many channels tensor cores read at once (16 bytes); 1: tensor cores are not used.
std::int64_t channels_at_once(const ConvDesc& d) {
  if (is_half(d.src.dtype)) return 8;
  return d.tf32 ? 4 : 1;
}

/// `d` with more source channels. The weights of the added channels are zero.
ConvDesc with_channels(ConvDesc d, std::int64_t channels) {
  d.src.shape[1] = d.weights.shape[1] = channels;
  d.src.layout = d.weights.layout = Layout::any();
  return d;
}

/// All variants, without their engines. The autotuner finds the fastest variant.
std::vector<ConvVariant> possible_variants(const ConvDesc& d, Verb verb) {
  const auto types = conv_types(d, verb);
  const auto variant = [&](const char* name, Epilogue epilogue) {
    ConvVariant v;
    v.name = name;
    v.padded = d;
    v.epilogue = epilogue;
    v.types = types;
    return v;
  };
  std::vector<ConvVariant> plain;
  if (verb == Verb::forward && channels_at_once(d) > 1 && may_fuse(d, types))
    plain.push_back(variant("fused/", Epilogue::bias_activation));
  if (verb == Verb::backward_weights && is_half(d.src.dtype)) {
    // Few engines write f32 gradients from 16-bit operands, and on an H100 they take 3 to 40 times as long. The others
    // sum in f32 and round the result.
    plain.push_back(variant("rounded/", Epilogue::none));
    plain.back().types.weights = d.src.dtype;
  }
  plain.push_back(variant("", Epilogue::none));
  const auto step = channels_at_once(d);
  if (verb == Verb::backward_data || padded_channels(d) == d.src.shape[1]) return plain;
  std::vector<ConvVariant> all;
  for (auto v : plain) {
    v.name = fmt::format("pad{}/{}", step, v.name);
    v.padded = with_channels(d, padded_channels(d));
    all.push_back(std::move(v));
  }
  if (PaddedChannels::channels_of(d.src.layout) == 0) all.insert(all.end(), plain.begin(), plain.end());
  return all;
}

/// The first settings of the first engines. For a convolution in bf16 cuDNN 9.19 proposes 30 to 42, and the first ten
/// or more are often one engine with other settings. A trial takes some 50 ms, and a second if the engine compiles its
/// kernel. On an H100, for the convolutions of CosmoFlow and most of DeepCAM, these take 0.2 % longer than the best
/// of 32.
std::vector<EngineChoice> best_of(const std::vector<EngineChoice>& proposed) {
  constexpr std::size_t most_of_one = 1, most = 4;
  std::vector<std::int64_t> engines;
  for (const auto& e : proposed) engines.push_back(e.engine);
  std::vector<EngineChoice> best;
  for (const auto i : backends::shortlist(engines, most_of_one, most)) best.push_back(proposed[i]);
  return best;
}

}  // namespace

std::int64_t padded_channels(const ConvDesc& d) {
  const auto step = channels_at_once(d), channels = d.src.shape[1];
  return d.params.groups > 1 ? channels : (channels + step - 1) / step * step;
}

std::vector<ConvVariant> conv_variants(const ConvDesc& d, Verb verb, const CudnnTarget& target) {
  const EngineRules rules{is_half(d.src.dtype) || d.tf32};
  std::vector<ConvVariant> found;
  for (auto& v : possible_variants(d, verb)) {
    try {
      v.graph = std::make_shared<Descriptor>(conv_graph(v.padded, verb, v.epilogue, v.types, target));
    } catch (const backends::Unsupported&) {
      continue;  // cuDNN cannot express this variant
    }
    v.engines = best_of(engines(*v.graph, target, rules));
    if (!v.engines.empty()) found.push_back(std::move(v));
  }
  return found;
}

}  // namespace keelson::cuda
