#pragma once

#include <memory>
#include <string>

#include "backends/kokkos/winograd/winograd_kernels.hpp"
#include "engine/ops/conv.hpp"

/// The passes of Winograd's algorithms over all tiles of a convolution, whatever op they work for. Their scratch memory
/// is aligned to 64 bytes.
namespace keelson::kokkos {

/// The forward pass, or the gradient of the source, which is the same with filters turned around.
class WinogradPass {
 public:
  virtual ~WinogradPass() = default;
  virtual std::size_t scratch_bytes() const = 0;
  /// What the pass reads, where that lies in memory as it is: src, or the gradient of dst.
  virtual TileSource source(const void* data, DType type) const = 0;
  /// Results that go to `dst` as they are.
  virtual WinogradOutput output(float* dst) const = 0;
  virtual void run(const TileSource& source, const Tensor& weights, const WinogradOutput& output,
                   void* scratch) const = 0;
};

/// The gradient of the weights.
class WinogradWeightsPass {
 public:
  virtual ~WinogradWeightsPass() = default;
  virtual std::size_t scratch_bytes() const = 0;
  /// The gradient of dst, where that lies in memory as it is.
  virtual TileSource gradient(const float* diff_dst) const = 0;
  virtual void run(const float* src, const TileSource& gradient, const Tensor& diff_weights, void* scratch) const = 0;
};

/// "winograd:4x4x4"
std::string winograd_name(const Shape& kernel, int m);

/// The reason why the algorithm with tiles of m cannot make this verb; empty: none. src and weights are f32, in the
/// forward pass also bf16; dst is f32.
std::string unfit_for_winograd(const ops::ConvDesc& d, ops::Verb verb, int m);
/// Layouts that are left open become channels-last ones; the reason why others do not do.
std::string settle_winograd_layouts(ops::ConvDesc& d);

/// forward or backward_data of a convolution that is fit, with settled layouts.
std::unique_ptr<WinogradPass> make_winograd_pass(const ops::ConvDesc& d, ops::Verb verb, int m);
std::unique_ptr<WinogradWeightsPass> make_winograd_weights_pass(const ops::ConvDesc& d, int m);

}  // namespace keelson::kokkos
