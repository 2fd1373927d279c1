#pragma once

#include "backends/cuda/cudnn_conv_graph.hpp"

namespace keelson::cuda {

/// One variant of a verb of a convolution by cuDNN: with or without bias, activation and conversion in the graph, on
/// the operands or on copies with more channels, and the engines that can run this graph. Our own kernels do the
/// operations that are not in the graph.
struct ConvVariant {
  std::string name;  ///< "fused/", "pad8/", ...
  /// the convolution that cuDNN computes: src and weights may have more channels, which are zero
  ops::ConvDesc padded;
  Epilogue epilogue = Epilogue::none;
  ConvTypes types;
  std::shared_ptr<Descriptor> graph;
  std::vector<EngineChoice> engines;  ///< the most promising first
};

/// The number of source channels that suits tensor cores: this convolution's own number, or the next multiple.
std::int64_t padded_channels(const ops::ConvDesc& d);

/// The variants that have engines on `target`, the most promising first, each with the few engines that are worth
/// trying.
std::vector<ConvVariant> conv_variants(const ops::ConvDesc& d, ops::Verb verb, const CudnnTarget& target);

}  // namespace keelson::cuda
