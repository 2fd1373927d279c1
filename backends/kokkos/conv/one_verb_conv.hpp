#pragma once

#include <string>
#include <utility>

#include "backends/kokkos/conv/conv_geometry.hpp"

namespace keelson::kokkos {

/// An algorithm with fewer products than the definition of a convolution has.
struct FastAlgorithm {
  std::string name;
  double times_fewer = 1;     ///< the definition's products over those of the algorithm, without borders
  double relative_error = 1;  ///< Primitive::relative_error()

  /// `c` with the algorithm's FLOPs.
  ops::Cost cost(ops::Cost c) const { return {c.flops, c.bytes, c.flops / times_fewer}; }
};

/// One verb of a convolution, as a candidate of that verb. The others fail.
class OneVerbConv : public ops::Conv {
 public:
  OneVerbConv(const ops::ConvDesc& d, ops::Verb verb, FastAlgorithm algorithm)
      : d_(d), verb_(verb), algorithm_(std::move(algorithm)) {}

  Layout layout(ops::Verb, ops::Role r) const override { return ops::weighted_layout(d_, r); }
  std::string name(ops::Verb) const override { return algorithm_.name; }
  double relative_error(ops::Verb) const override { return algorithm_.relative_error; }
  ops::Cost cost(ops::Verb v) const override { return algorithm_.cost(conv_cost(d_, v)); }
  void forward(const Forward<ops::Tensors>&) override { not_made(); }
  void backward_data(const BackwardData<ops::Tensors>&) override { not_made(); }
  void backward_weights(const BackwardWeights<ops::Tensors>&) override { not_made(); }

 protected:
  ops::ConvDesc d_;

 private:
  [[noreturn]] void not_made() const { fail("made for {} only", to_string(verb_)); }

  ops::Verb verb_;
  FastAlgorithm algorithm_;
};

}  // namespace keelson::kokkos
