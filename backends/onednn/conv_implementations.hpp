#pragma once

#include "backends/onednn/weighted.hpp"
#include "engine/ops/candidates.hpp"

/// Further implementations of a convolution by oneDNN, beside the one that oneDNN proposes first and a rule of thumb
/// takes.
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
  /// Uses only the parameters and dtypes of `d`; each call below gets the layouts. Throws Unsupported if a bias cannot
  /// be described.
  ConvDescriptors(const LibraryPtr& library, const ops::ConvDesc& d);

  /// If oneDNN has no such convolution: empty if `may_be_empty`, else throws dnnl::error.
  ConvKinds::Forward::primitive_desc forward(const Operands& o, bool may_be_empty = false) const;
  /// `o.src` is diff_src, `o.dst` diff_dst. Empty if oneDNN has none.
  ConvKinds::BackwardData::primitive_desc backward_data(const Operands& o,
                                                        const ConvKinds::Forward::primitive_desc& forward) const;
  /// `o.weights` is diff_weights, `o.dst` diff_dst. Empty if oneDNN has none.
  ConvKinds::BackwardWeights::primitive_desc backward_weights(const Operands& o,
                                                              const ConvKinds::Forward::primitive_desc& forward) const;
  /// Whether oneDNN (3.12) computes the verb wrongly. In three dims, with a kernel deeper than src, its 16-bit kernels
  /// for the gradient of the weights leave old values of the memory in the sums of some taps. Where a stride skips
  /// positions and the channels of src do not fill a vector, its kernels for the gradient of pointwise weights add
  /// elements of wrong channels (with AVX2 alone) or write behind their scratch memory (with AVX-512, several threads).
  bool is_wrong(ops::Verb verb, std::string_view implementation) const;

 private:
  LibraryPtr library_;
  ops::EltwiseParams activation_;
  bool training_;
  bool is_shallow_;                      ///< three dims, and the kernel is deeper than src
  bool skips_;                           ///< a stride above 1
  bool has_few_channels_;                ///< src has fewer channels than an AVX-512 register has floats
  dnnl::memory::desc bias_, diff_bias_;  ///< zero: there is none
  dnnl::memory::dims stride_, gaps_, begin_, end_;
};

/// Further implementations of a verb than the one of the first backend. src and dst are channels-last; weights have the
/// layout of the first primitive. If the implementation needs other layouts, the call reorders in scratch memory; ",
/// reordered" in the name says that src or dst is reordered. There is at most one candidate with and one without such
/// reorders, of no slower kind (implementation_rank()) than the first primitive's kernel, always in the same order. No
/// candidates if the first primitive does not have channels-last src and dst.
ops::CandidateList<ops::Conv> further_implementations(const LibraryPtr& library,
                                                      const ops::CandidateRequest<ops::ConvDesc>& request);

}  // namespace keelson::onednn
