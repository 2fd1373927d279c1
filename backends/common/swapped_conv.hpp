#pragma once

#include <memory>

#include "engine/ops/factory.hpp"
#include "engine/ops/transposed_conv.hpp"

namespace keelson::backends {

/// A transposed convolution that uses a backend's convolution with exchanged roles of the operands
/// (ops::swapped_conv()). Backends add the forward pass: the convolution's backward_data, then bias and activation.
class SwappedConv : public ops::TransposedConv {
 public:
  /// `conv`: a primitive for ops::swapped_conv(d).
  SwappedConv(const ops::TransposedConvDesc& d, std::unique_ptr<ops::Conv> conv) : d_(d), conv_(std::move(conv)) {}

  Layout layout(ops::Verb verb, ops::Role role) const override;
  std::string name(ops::Verb verb) const override;
  std::string_view backend_of(ops::Verb verb) const override;
  std::size_t scratch_bytes(ops::Verb verb) const override;
  double relative_error(ops::Verb verb) const override;
  ops::Cost cost(ops::Verb verb) const override;

  void backward_data(const BackwardData<ops::Tensors>& args) override;
  void backward_weights(const BackwardWeights<ops::Tensors>& args) override;

 protected:
  const ops::TransposedConvDesc& desc() const { return d_; }
  ops::Conv& conv() const { return *conv_; }
  bool has_epilogue() const { return d_.params.bias || d_.params.activation.kind != ops::EltwiseKind::identity; }

 private:
  ops::TransposedConvDesc d_;
  std::unique_ptr<ops::Conv> conv_;
};

/// The reason why no backend can make the op: shapes that do not fit, or in training an activation whose derivative
/// cannot be computed from its result. Empty: there is none.
std::string transposed_conv_mismatch(const ops::TransposedConvDesc& d);

}  // namespace keelson::backends
