#pragma once

#include "engine/ops/eltwise.hpp"
#include "engine/ops/weighted.hpp"

namespace keelson::ops {

/// Convolution over 1 to 3 spatial dims (cross-correlation, as in all frameworks). Each Shape below has one entry per
/// spatial dim.
struct ConvParams {
  Shape kernel;             ///< extents
  Shape stride;             ///< >= 1
  Shape dilation;           ///< 1 = dense kernel
  Shape pad_begin;          ///< zeros before the first element
  Shape pad_end;            ///< zeros after the last one
  std::int64_t groups = 1;  ///< of channels, each with filters of its own
  bool bias = true;         ///< whether there is a bias
  EltwiseParams
      activation;  ///< applied to the result; identity = none. Only kinds with derivative_from_dst() in training.
  friend bool operator==(const ConvParams&, const ConvParams&) = default;
};

class Conv;

/// src (N, C, spatial...), weights (O, C/groups, kernel...), bias (O), dst (N, O, spatial'...). Layouts may be `any`;
/// bias is plain. src and weights are of one dtype, f32, bf16 or f16; dst is f32 or of theirs. diff_src is of the dtype
/// of dst, diff_dst of that of src; bias, diff_weights, diff_bias and all sums are f32.
struct ConvDesc {
  using Op = Conv;
  ConvParams params;
  TensorDesc src, weights, dst;
  bool training = true;  ///< also make the backward verbs
  bool diff_src = true;  ///< backward_data is wanted (false for the first layer)
  bool tf32 = false;     ///< f32 operands may be rounded to 10 bits of mantissa before they are multiplied
  /// backward_weights writes diff_bias, where there is a bias (false: the caller has it from BiasGradient)
  bool diff_bias = true;
  bool diff_weights = true;  ///< backward_weights is wanted (false for a transposed convolution in evaluation)
  /// All products are made as the definition says, and added: no algorithm that saves multiplications (Winograd's),
  /// which rounds otherwise, and in which a NaN or an infinity also reaches the neighbours of the results that read it.
  bool exact = false;

  bool writes_diff_bias() const { return params.bias && diff_bias; }  ///< both

  std::vector<Verb> verbs() const;  ///< those that are asked for
  /// Gives src and dst the layouts that `conv` has. Weights get its layout only if that is strided: any convolution can
  /// read such weights.
  void take_layouts(const Conv& conv);

  friend bool operator==(const ConvDesc&, const ConvDesc&) = default;
};

/// Logical shape of dst; refuses (InputError) what does not fit: channels not divisible by groups, a kernel larger than
/// its input.
Shape conv_dst_shape(const Shape& src, const ConvParams& params, std::int64_t filters);

/// Padding that keeps ceil(extent / stride), as TensorFlow's "SAME": the odd element goes to the end.
void set_same_padding(ConvParams& params, const Shape& src);

/// dst = activation(conv(src, weights) + bias).
class Conv : public WeightedPrimitive<ConvDesc> {};

/// FLOPs of one verb (all three are equal): 2 per multiply-add; taps that fall on padding count.
double conv_flops(const ConvDesc& d);

std::string describe(const ConvDesc& d);

}  // namespace keelson::ops
