#pragma once

#include <string>
#include <utility>

#include "backends/kokkos/conv/conv_geometry.hpp"

namespace keelson::kokkos {

/// One verb of a convolution, as a candidate of that verb. The others fail.
class OneVerbConv : public ops::Conv {
 public:
  OneVerbConv(const ops::ConvDesc& d, ops::Verb verb, std::string name) : d_(d), verb_(verb), name_(std::move(name)) {}

  Layout layout(ops::Verb, ops::Role r) const override { return ops::weighted_layout(d_, r); }
  std::string name(ops::Verb) const override { return name_; }
  ops::Cost cost(ops::Verb v) const override { return conv_cost(d_, v); }
  void forward(const Forward<ops::Tensors>&) override { not_made(); }
  void backward_data(const BackwardData<ops::Tensors>&) override { not_made(); }
  void backward_weights(const BackwardWeights<ops::Tensors>&) override { not_made(); }

 protected:
  ops::ConvDesc d_;

 private:
  [[noreturn]] void not_made() const { fail("made for {} only", to_string(verb_)); }

  ops::Verb verb_;
  std::string name_;
};

}  // namespace keelson::kokkos
