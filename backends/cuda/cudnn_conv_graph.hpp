#pragma once

#include "backends/cuda/cudnn.hpp"
#include "engine/ops/conv.hpp"

/// Convolutions in cuDNN's words.
namespace keelson::cuda {

/// Numbers of the tensors of a convolution's graph, whichever verb it is: forward reads src, weights and bias and
/// writes dst; backward_data reads dst and weights and writes src; backward_weights reads src and dst, writes weights.
enum ConvTensor : std::int64_t { conv_src = 1, conv_weights = 2, conv_bias = 3, conv_dst = 4 };

/// What the dtypes of one verb's operands are: `dst` and `src` mean the gradients in the backward verbs.
struct ConvTypes {
  DType src, weights, dst;
};
ConvTypes conv_types(const ops::ConvDesc& d, ops::Verb verb);

/// What a forward graph does after the convolution.
enum class Epilogue : std::uint8_t {
  none,
  bias_activation,  ///< d's bias, if it has one, and d's activation
};

/// "" where cuDNN can express the activation, else why not.
std::string not_fusible(const ops::EltwiseParams& activation);

/// The graph of one verb. Layouts of d: channels-last, or `any`, which means that. The epilogue is forward's.
Descriptor conv_graph(const ops::ConvDesc& d, ops::Verb verb, Epilogue epilogue, const ConvTypes& types,
                      const CudnnTarget& target);

}  // namespace keelson::cuda
