#pragma once

#include "backends/cuda/cudnn.hpp"
#include "engine/ops/conv.hpp"

/// Convolutions as graphs of cuDNN.
namespace keelson::cuda {

/// Numbers of the tensors of a convolution's graph, the same for every verb: forward reads src, weights and bias and
/// writes dst; backward_data reads dst and weights and writes src; backward_weights reads src and dst, writes weights.
enum ConvTensor : std::int64_t { conv_src = 1, conv_weights = 2, conv_bias = 3, conv_dst = 4 };

/// The dtypes of one verb's operands: `dst` and `src` mean the gradients in the backward verbs.
struct ConvTypes {
  DType src, weights, dst;
};
ConvTypes conv_types(const ops::ConvDesc& d, ops::Verb verb);

/// The operations after the convolution in a forward graph.
enum class Epilogue : std::uint8_t {
  none,
  bias_activation,  ///< d's bias, if it has one, and d's activation
};

/// "" if cuDNN can express the activation, else the reason why not.
std::string not_fusible(const ops::EltwiseParams& activation);

/// The graph of one verb. Layouts of d: channels-last, or `any`, which is taken as channels-last. The epilogue is for
/// forward.
Descriptor conv_graph(const ops::ConvDesc& d, ops::Verb verb, Epilogue epilogue, const ConvTypes& types,
                      const CudnnTarget& target);

}  // namespace keelson::cuda
