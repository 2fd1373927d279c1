#pragma once

#include "backends/cuda/cudnn_conv_graph.hpp"

namespace keelson::cuda {

/// One way to compute one verb of a convolution by cuDNN: with or without what else belongs to the verb in the graph,
/// on the operands as they are or on copies with more channels, and the engines that can do it. What the graph leaves
/// out (bias, activation, conversion) is done by kernels of our own.
struct ConvVariant {
  std::string name;      ///< "fused/", "pad8/", ...
  ops::ConvDesc padded;  ///< what cuDNN computes: src and weights may have more channels, which are zero
  Epilogue epilogue = Epilogue::none;
  ConvTypes types;
  std::shared_ptr<Descriptor> graph;
  std::vector<EngineChoice> engines;  ///< the most promising first
};

/// The source channels that tensor cores like for this convolution: its own number, or the next multiple.
std::int64_t padded_channels(const ops::ConvDesc& d);

/// The ways that have engines on `target`, the most promising first, with the few engines of each that are worth
/// trying.
std::vector<ConvVariant> conv_variants(const ops::ConvDesc& d, ops::Verb verb, const CudnnTarget& target);

}  // namespace keelson::cuda
