#pragma once

#include "engine/ops/conv.hpp"
#include "engine/ops/pool.hpp"

namespace keelson::ops {

class ConvMaxPoolBackward;
class ConvMaxPoolForward;

/// The gradients of a convolution whose result, after its activation, is read only by a max pooling. One element per
/// window and channel receives a gradient, so the convolution's diff_dst is zero nearly everywhere: in 7 of 8 elements
/// for windows of 2 x 2 x 2. This op uses the pooled gradient and the argmax indices of the windows instead. It needs
/// 1/8 of the FLOPs of Pool's and Conv's backward verbs, gives the same result up to rounding, and never makes
/// diff_dst.
///
/// src (N, C, spatial...), weights (O, C, kernel...); dst (N, O, spatial'...) is the pooled result. src and dst have
/// the same dtype, f32, bf16 or f16; weights, bias, their gradients and all sums are f32. Layouts may be `any`.
/// Backends for GPUs support only the gradient of the weights (no diff_src, no bias), and need concrete layouts of src
/// and dst: those of the forward pass.
struct ConvMaxPoolDesc {
  using Op = ConvMaxPoolBackward;
  ConvParams conv;
  PoolParams pool;
  TensorDesc src, weights, dst;
  bool diff_src = true;  ///< backward_data is needed (false for the first layer)
  bool tf32 = false;     ///< as in ConvDesc
  bool exact = false;    ///< as in ConvDesc
  /// f32 operands may be rounded to this dtype (bf16 or f16; f32: no rounding) before they are multiplied, if that is
  /// faster.
  DType compute = DType::f32;

  TensorDesc bias_desc() const { return TensorDesc::plain({weights.shape[0]}); }
  /// The argmax indices of the windows: a byte for each element of dst.
  TensorDesc workspace_desc() const { return TensorDesc::plain({dst.elements()}, DType::u8); }

  /// Indices as training leaves them: anywhere in the windows. Host memory.
  void fill_workspace(void* indices) const;

  std::vector<Verb> verbs() const;                         ///< those that are asked for
  void take_layouts(const ConvMaxPoolBackward& gradient);  ///< gives all operands the layouts that `gradient` has
};

/// Has no forward verb.
class ConvMaxPoolBackward : public DescribedPrimitive<ConvMaxPoolDesc> {
 public:
  /// diff_dst is the gradient of the pooled result before the activation. workspace is the Pool's, whose dst must have
  /// had the layout that this primitive has for dst.
  template <class K>
  struct BackwardData {
    static constexpr Verb verb = Verb::backward_data;
    In<K, Role::diff_dst, &ConvMaxPoolDesc::dst> diff_dst;
    In<K, Role::workspace, &ConvMaxPoolDesc::workspace_desc> workspace;
    In<K, Role::weights, &ConvMaxPoolDesc::weights> weights;
    Out<K, Role::diff_src, &ConvMaxPoolDesc::src> diff_src;
    Scratch<K> scratch;
  };
  template <class K>
  struct BackwardWeights {
    static constexpr Verb verb = Verb::backward_weights;
    In<K, Role::src, &ConvMaxPoolDesc::src> src;
    In<K, Role::diff_dst, &ConvMaxPoolDesc::dst> diff_dst;
    In<K, Role::workspace, &ConvMaxPoolDesc::workspace_desc> workspace;
    Out<K, Role::diff_weights, &ConvMaxPoolDesc::weights> diff_weights;
    OptionalOut<K, Role::diff_bias, &ConvMaxPoolDesc::bias_desc> diff_bias;
    Scratch<K> scratch;
  };

  virtual void backward_data(const BackwardData<Tensors>& args) = 0;
  virtual void backward_weights(const BackwardWeights<Tensors>& args) = 0;
};

/// A convolution, its activation and max pooling as one call that never stores the whole convolution's result. f32,
/// channels-last. A backend supports it if that is faster: if the result is larger than the caches, and windows do not
/// overlap along the first spatial dim.
///
/// conv.dst is the convolution's result, `dst` the pooled result. The layouts of conv.src and conv.dst are
/// channels-last.
struct ConvMaxPoolForwardDesc {
  using Op = ConvMaxPoolForward;
  ConvDesc conv;  ///< the convolution
  PoolParams pool;
  TensorDesc dst;
  bool training = true;  ///< workspace is written

  std::vector<Verb> verbs() const { return {Verb::forward}; }  ///< those that there are
  void take_layouts(const ConvMaxPoolForward&) {}              ///< those of src and dst are given
  TensorDesc src_desc() const { return conv.src; }
  TensorDesc weights_desc() const { return conv.weights; }
  TensorDesc bias_desc() const { return Conv::bias_desc(conv); }
};

class ConvMaxPoolForward : public DescribedPrimitive<ConvMaxPoolForwardDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::src, &ConvMaxPoolForwardDesc::src_desc> src;
    In<K, Role::weights, &ConvMaxPoolForwardDesc::weights_desc> weights;
    OptionalIn<K, Role::bias, &ConvMaxPoolForwardDesc::bias_desc> bias;
    Out<K, Role::dst, &ConvMaxPoolForwardDesc::dst> dst;
    OptionalOut<K, Role::workspace, undescribed> workspace;  ///< the argmax indices, as written by Pool
    Scratch<K> scratch;
  };
  virtual void forward(const Forward<Tensors>& args) = 0;
};

std::string describe(const ConvMaxPoolForwardDesc& d);
std::string describe(const ConvMaxPoolDesc& d);

}  // namespace keelson::ops
