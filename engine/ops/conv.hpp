#pragma once

#include "engine/ops/eltwise.hpp"

namespace keelson::ops {

/// Convolution over 1 to 3 spatial dims (cross-correlation, as in all frameworks). Each Shape below has one entry per
/// spatial dim.
struct ConvParams {
  Shape kernel;
  Shape stride;     ///< >= 1
  Shape dilation;   ///< 1 = dense kernel
  Shape pad_begin;  ///< zeros before the first element
  Shape pad_end;    ///< zeros after the last one
  std::int64_t groups = 1;
  bool bias = true;
  EltwiseParams
      activation;  ///< applied to the result; identity = none. Only kinds with derivative_from_dst() in training.
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
};

/// Logical shape of dst; refuses (InputError) what does not fit: channels not divisible by groups, a kernel larger than
/// its input.
Shape conv_dst_shape(const Shape& src, const ConvParams& params, std::int64_t filters);

/// Padding that keeps ceil(extent / stride), as TensorFlow's "SAME": the odd element goes to the end.
void set_same_padding(ConvParams& params, const Shape& src);

class Conv : public Primitive {
 public:
  /// dst = activation(conv(src, weights) + bias); `bias` is an empty tensor where params.bias is false.
  virtual void forward(const Tensor& src, const Tensor& weights, const Tensor& bias, const Tensor& dst,
                       const Tensor& scratch) = 0;
  /// diff_dst is the gradient of the convolution's result before the activation.
  virtual void backward_data(const Tensor& diff_dst, const Tensor& weights, const Tensor& diff_src,
                             const Tensor& scratch) = 0;
  virtual void backward_weights(const Tensor& src, const Tensor& diff_dst, const Tensor& diff_weights,
                                const Tensor& diff_bias, const Tensor& scratch) = 0;
};

/// FLOPs of one verb (all three are equal): 2 per multiply-add; taps that fall on padding count.
double conv_flops(const ConvDesc& d);

}  // namespace keelson::ops
