#pragma once

#include "backends/onednn/weighted.hpp"
#include "engine/ops/candidates.hpp"

/// oneDNN's implementations of a convolution beyond the one that its first choice, and a rule of thumb, take.
namespace keelson::onednn {

/// oneDNN's primitives for the three verbs.
struct ConvKinds {
  using Forward = dnnl::convolution_forward;
  using BackwardData = dnnl::convolution_backward_data;
  using BackwardWeights = dnnl::convolution_backward_weights;
};

/// Makes oneDNN's primitive descriptors for the verbs of a convolution.
class ConvDescriptors {
 public:
  /// Only the parameters and dtypes of `d` count: each call below says the layouts. Throws Unsupported where a bias
  /// cannot be described.
  ConvDescriptors(const LibraryPtr& library, const ops::ConvDesc& d);

  /// Empty where oneDNN has no such convolution and `may_be_empty`; else throws dnnl::error there.
  ConvKinds::Forward::primitive_desc forward(const Operands& o, bool may_be_empty = false) const;
  /// `o.src` is diff_src, `o.dst` diff_dst. Empty where oneDNN has none.
  ConvKinds::BackwardData::primitive_desc backward_data(const Operands& o,
                                                        const ConvKinds::Forward::primitive_desc& forward) const;
  /// `o.weights` is diff_weights, `o.dst` diff_dst. Empty where oneDNN has none.
  ConvKinds::BackwardWeights::primitive_desc backward_weights(const Operands& o,
                                                              const ConvKinds::Forward::primitive_desc& forward) const;
  /// Whether oneDNN (3.12) computes the verb wrongly: in three dims its 16-bit kernels for the gradient of the weights
  /// leave what they find in memory in the sums of some taps where the kernel is deeper than src.
  bool is_wrong(ops::Verb verb, std::string_view implementation) const;

 private:
  LibraryPtr library_;
  ops::EltwiseParams activation_;
  bool training_;
  bool is_shallow_;                      ///< three dims, and the kernel is deeper than src
  dnnl::memory::desc bias_, diff_bias_;  ///< zero where there is none
  dnnl::memory::dims stride_, gaps_, begin_, end_;
};

/// Other implementations of a verb than the one that the first backend took. They take and give channels-last src and
/// dst, and weights as the first primitive has them. Where the implementation wants other layouts, the call reorders in
/// scratch memory: ", reordered" in the name says that src or dst is reordered. There is at most one candidate without
/// and one with such reorders, none slower by kind (implementation_rank()) than the first primitive's kernel, always in
/// the same order. None where the first primitive does not have channels-last src and dst.
ops::CandidateList<ops::Conv> further_implementations(const LibraryPtr& library,
                                                      const ops::CandidateRequest<ops::ConvDesc>& request);

}  // namespace keelson::onednn
