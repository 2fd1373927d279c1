#pragma once

#include <memory>
#include <string>

#include "backends/kokkos/conv/one_verb_conv.hpp"
#include "backends/kokkos/winograd/winograd_kernels.hpp"
#include "engine/ops/conv.hpp"

/// The passes of Winograd's algorithms over all tiles of a convolution, for any op. Scratch memory must be aligned to
/// 64 bytes.
namespace keelson::kokkos {

/// The forward pass, or the gradient of src, which is the same with reversed filters.
class WinogradPass {
 public:
  virtual ~WinogradPass() = default;
  virtual std::size_t scratch_bytes() const = 0;
  /// The tensor that the pass reads, if it is in memory: src or diff_dst.
  virtual TileSource source(const void* data, DType type) const = 0;
  /// Results that are written to `dst` without pooling.
  virtual WinogradOutput output(float* dst) const = 0;
  virtual void run(const TileSource& source, const Tensor& weights, const WinogradOutput& output,
                   void* scratch) const = 0;
};

/// The gradient of the weights.
class WinogradWeightsPass {
 public:
  virtual ~WinogradWeightsPass() = default;
  virtual std::size_t scratch_bytes() const = 0;
  /// diff_dst, if it is in memory.
  virtual TileSource gradient(const float* diff_dst) const = 0;
  virtual void run(const float* src, const TileSource& gradient, const Tensor& diff_weights, void* scratch) const = 0;
};

/// Its name is "winograd:4x4x4" for tiles of m = 4 results. unpooled: a pooling with maxima follows, and most gradients
/// of the results are zero. The definition then has no more products than the algorithm.
FastAlgorithm winograd_algorithm(const Shape& kernel, int m, ops::Verb verb, bool unpooled = false);

/// The reason why the algorithm with tiles of m cannot compute this verb; empty: it can. src and weights are f32, in
/// the forward pass also bf16; dst is f32.
std::string unfit_for_winograd(const ops::ConvDesc& d, ops::Verb verb, int m);
/// Sets layouts that are `any` to channels-last. Returns the reason why the other layouts do not suit; empty: they do.
std::string settle_winograd_layouts(ops::ConvDesc& d);

/// For forward or backward_data of a convolution that passed both functions above.
std::unique_ptr<WinogradPass> make_winograd_pass(const ops::ConvDesc& d, ops::Verb verb, int m);
std::unique_ptr<WinogradWeightsPass> make_winograd_weights_pass(const ops::ConvDesc& d, int m);

}  // namespace keelson::kokkos
