#pragma once

#include "backends/cuda/cudnn_conv_variants.hpp"
#include "backends/cuda/library.hpp"

namespace keelson::cuda {

/// Convolution by cuDNN: channels-last tensors, weights as (O, kernel..., I/groups), f32, bf16 or f16.
ops::Expected<ops::Conv> make_cudnn_conv(const LibraryPtr& library, const ops::ConvDesc& d);

/// Operands of one verb. In the backward verbs, src and the others may be gradients: diff_src as src, and so on.
struct ConvOperands {
  void *src = nullptr, *weights = nullptr, *bias = nullptr, *dst = nullptr;
};

/// What CudnnConvVerb has chosen for a verb of a convolution.
struct CudnnChoice {
  ConvVariant variant;  ///< without its engines
  std::unique_ptr<CudnnPlan> plan;
};

/// One verb of a convolution with the chosen algorithm.
class CudnnConvVerb {
 public:
  /// Throws Unsupported if no engine runs.
  CudnnConvVerb(const LibraryPtr& library, const ops::ConvDesc& d, ops::Verb verb);

  std::size_t scratch_bytes() const { return parts_of(variant_, plan_->workspace_bytes()).end; }
  void run(const ConvOperands& o, void* scratch) { run(variant_, *plan_, o, scratch); }

 private:
  /// Offsets of the parts of scratch memory in bytes, from its first address that is a multiple of 256.
  struct Parts {
    std::size_t src = 0, weights = 0, sums = 0, workspace = 0, end = 0;
  };
  struct Candidate {
    const ConvVariant* variant;
    const EngineChoice* engine;
  };
  class Trial;

  bool copies_src(const ConvVariant& v) const { return v.padded.src.shape[1] != src_channels_; }
  bool pads(const ConvVariant& v) const { return v.padded.src.shape[1] != d_.src.shape[1]; }
  bool copies_weights(const ConvVariant& v) const;
  Parts parts_of(const ConvVariant& v, std::size_t workspace) const;
  std::unique_ptr<CudnnPlan> make_plan(const Candidate& c) const;
  void find_or_choose();
  void choose(const std::string& key);
  void run(const ConvVariant& v, CudnnPlan& plan, const ConvOperands& o, void* scratch) const;

  LibraryPtr library_;
  ops::ConvDesc d_;
  ops::Verb verb_;
  ConvTypes types_;
  CudnnTarget target_;
  std::int64_t src_channels_;                       ///< in memory
  std::int64_t src_rows_, dst_rows_, weight_rows_;  ///< elements per channel
  ConvVariant variant_;
  std::unique_ptr<CudnnPlan> plan_;
};

}  // namespace keelson::cuda
