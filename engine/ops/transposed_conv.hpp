#pragma once

#include "engine/ops/conv.hpp"

namespace keelson::ops {

/// Transposed convolution over 1 to 3 spatial dims: PyTorch's ConvTranspose, oneDNN's deconvolution. Each Shape below
/// has one entry per spatial dim.
struct TransposedConvParams {
  Shape kernel;              ///< extents
  Shape stride;              ///< >= 1: distance of two source elements in the result
  Shape dilation;            ///< 1 = dense kernel
  Shape pad_begin;           ///< elements cut off the beginning of the result
  Shape pad_end;             ///< elements cut off the end of the result
  Shape output_padding;      ///< elements added to the end of the result, fewer than the stride
  std::int64_t groups = 1;   ///< groups of channels, each with its own weights
  bool bias = true;          ///< whether there is a bias
  EltwiseParams activation;  ///< as in ConvParams
  friend bool operator==(const TransposedConvParams&, const TransposedConvParams&) = default;
};

class TransposedConv;

/// src (N, I, spatial...), weights (I, O/groups, kernel...), bias (O), dst (N, O, spatial'...). Layouts may be `any`;
/// bias is plain. Dtypes as in ConvDesc.
struct TransposedConvDesc {
  using Op = TransposedConv;
  TransposedConvParams params;
  TensorDesc src, weights, dst;
  bool training = true;  ///< also makes the backward verbs
  bool diff_src = true;  ///< backward_data is needed (false for the first layer)
  bool tf32 = false;     ///< f32 operands may be rounded to 10 bits of mantissa before they are multiplied
  bool exact = false;    ///< as in ConvDesc

  /// False: BiasGradient computes the gradient of the bias.
  bool writes_diff_bias() const { return false; }

  friend bool operator==(const TransposedConvDesc&, const TransposedConvDesc&) = default;
};

/// Logical shape of dst with `channels` channels: (in - 1) stride + dilation (kernel - 1) + 1 - pad_begin - pad_end +
/// output_padding in each spatial dim. Throws InputError for channels that are not divisible by groups, paddings that
/// leave nothing, and an output padding of a whole stride or more.
Shape transposed_conv_dst_shape(const Shape& src, const TransposedConvParams& params, std::int64_t channels);

/// Sets paddings that make every extent `stride` times that of the source, as TensorFlow's "SAME": an odd element is
/// cut off at the end.
void set_same_padding(TransposedConvParams& params);

/// dst = activation(sum over source elements i and kernel elements k of src[i] weights[k], at position stride i +
/// dilation k - pad_begin, + bias); terms outside of dst are dropped.
class TransposedConv : public WeightedPrimitive<TransposedConvDesc> {};

/// The convolution that this op reverses, without bias and activation. Its source is dst, its result is src, its
/// weights are the same; its backward_data is this op's forward, its forward is this op's backward_data, and its
/// backward_weights is this op's with the two operands exchanged.
ConvDesc swapped_conv(const TransposedConvDesc& d);

std::string describe(const TransposedConvDesc& d);

}  // namespace keelson::ops
