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
  std::int64_t groups = 1;  ///< groups of channels, each with its own filters
  bool bias = true;         ///< whether there is a bias
  EltwiseParams
      activation;  ///< applied to the result; identity = none. In training only kinds with derivative_from_dst().
  friend bool operator==(const ConvParams&, const ConvParams&) = default;
};

class Conv;

/// src (N, C, spatial...), weights (O, C/groups, kernel...), bias (O), dst (N, O, spatial'...). Layouts may be `any`;
/// bias is plain. src and weights have the same dtype, f32, bf16 or f16; dst has that dtype or f32. diff_src has the
/// dtype of dst, diff_dst that of src; bias, diff_weights, diff_bias and all sums are f32.
struct ConvDesc {
  using Op = Conv;
  ConvParams params;
  TensorDesc src, weights, dst;
  bool training = true;  ///< also makes the backward verbs
  bool diff_src = true;  ///< backward_data is needed (false for the first layer)
  bool tf32 = false;     ///< f32 operands may be rounded to 10 bits of mantissa before they are multiplied
  /// backward_weights writes diff_bias, if there is a bias (false: the caller uses BiasGradient).
  bool diff_bias = true;
  bool diff_weights = true;  ///< backward_weights is needed (false for a transposed convolution in evaluation)
  /// Computes the convolution by its definition, without algorithms that save multiplications (Winograd's, Fourier
  /// transforms). Those round differently, and a NaN or an infinity in them also reaches neighbouring results.
  bool exact = false;

  bool writes_diff_bias() const { return params.bias && diff_bias; }  ///< whether backward_weights writes diff_bias

  std::vector<Verb> verbs() const;  ///< those that are asked for
  /// Gives src and dst the layouts that `conv` has. Weights get its layout only if that is strided: any convolution can
  /// read such weights.
  void take_layouts(const Conv& conv);

  friend bool operator==(const ConvDesc&, const ConvDesc&) = default;
};

/// Logical shape of dst; throws InputError if the shapes do not fit: channels not divisible by groups, a kernel larger
/// than its input.
Shape conv_dst_shape(const Shape& src, const ConvParams& params, std::int64_t filters);

/// Padding for results of the extent ceil(extent / stride), as TensorFlow's "SAME": an odd element is added at the end.
void set_same_padding(ConvParams& params, const Shape& src);

/// dst = activation(conv(src, weights) + bias).
class Conv : public WeightedPrimitive<ConvDesc> {};

/// FLOPs of one verb (all three are equal): 2 per multiply-add; multiply-adds with padding are included.
double conv_flops(const ConvDesc& d);

std::string describe(const ConvDesc& d);

/// Convolutions of the same kind (Autotuner::Trials::kind) are slow by the same algorithms. They differ in extents and,
/// from 64 channels on, in the numbers of channels.
std::string kind_of_problem(const ConvDesc& d);

}  // namespace keelson::ops
