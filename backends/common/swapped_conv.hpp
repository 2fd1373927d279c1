#pragma once

#include <memory>

#include "engine/ops/factory.hpp"
#include "engine/ops/transposed_conv.hpp"

namespace keelson::backends {

/// A transposed convolution by a backend's convolution with the roles of its operands exchanged (ops::swapped_conv()).
/// Backends add the forward pass: the convolution's backward_data, then bias and activation, which that does not know.
class SwappedConv : public ops::TransposedConv {
 public:
  /// `conv`: made from ops::swapped_conv(d).
  SwappedConv(const ops::TransposedConvDesc& d, std::unique_ptr<ops::Conv> conv) : d_(d), conv_(std::move(conv)) {}

  Layout layout(ops::Verb verb, ops::Role role) const override;
  std::string name(ops::Verb verb) const override;
  std::string_view backend_of(ops::Verb verb) const override;
  std::size_t scratch_bytes(ops::Verb verb) const override;
  ops::Cost cost(ops::Verb verb) const override;

  void backward_data(const BackwardData<ops::Tensors>& args) override;
  void backward_weights(const BackwardWeights<ops::Tensors>& args) override;

 protected:
  const ops::TransposedConvDesc& desc() const { return d_; }  ///< what it was made from
  ops::Conv& conv() const { return *conv_; }                  ///< the convolution
  bool has_epilogue() const {                                 ///< whether there is a bias or an activation
    return d_.params.bias || d_.params.activation.kind != ops::EltwiseKind::identity;
  }

 private:
  ops::TransposedConvDesc d_;
  std::unique_ptr<ops::Conv> conv_;
};

/// Why no backend can make it: shapes that do not fit, an activation without derivative from its result in training;
/// empty otherwise.
std::string transposed_conv_mismatch(const ops::TransposedConvDesc& d);

}  // namespace keelson::backends
