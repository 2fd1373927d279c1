#pragma once

#include <cstdint>
#include <string>

#include "engine/ops/conv_max_pool.hpp"
#include "engine/ops/factory.hpp"

/// ops::ConvMaxPoolBackward on GPUs: only the gradient of the weights, which is enough for a first layer. Also for
/// backends with their own layout of src. Including this needs no Kokkos.
namespace keelson::kokkos {

/// "" if argmax indices are enough for the gradients and pay: one group, stride and dilation 1, windows without gap or
/// overlap; else the reason why not. For all processors.
std::string unfit_for_argmax(const ops::ConvMaxPoolDesc& d);
/// "" if ArgmaxWeights computes backward_weights of this description, apart from the layout of src; else the reason why
/// not.
std::string unfit_for_argmax_weights(const ops::ConvMaxPoolDesc& d);

/// Adds partial sums of a weight gradient.
class GradientSlots {
 public:
  /// `d` describes the gradient, in a strided layout.
  GradientSlots(const ops::ConvMaxPoolDesc& d, std::int64_t slots) : weights_(d.weights), slots_(slots) {}

  std::int64_t slots() const { return slots_; }
  std::int64_t columns() const { return weights_.elements(); }  ///< sums of a slot
  std::size_t scratch_bytes() const;                            ///< with the partial sums, which come first
  /// diff_weights = the sum over the slots of `sums`, (slot, kernel..., C, O), in an order that depends only on the
  /// description and the number of slots. The memory behind `sums` is used, too.
  void add(float* sums, float* diff_weights) const;

 private:
  TensorDesc weights_;
  std::int64_t slots_;
};

/// diff_weights[o][tap][c] = sum over windows of diff_dst[window][o] * src[position of the maximum + tap][c], in f32.
/// The order of the sums depends only on the description.
class ArgmaxWeights {
 public:
  /// `channels`: the number of contiguous channels of src in memory; the first ones are those of the shape.
  ArgmaxWeights(const ops::ConvMaxPoolDesc& d, std::int64_t channels);

  std::size_t scratch_bytes() const { return slots_.scratch_bytes(); }
  ops::Cost cost() const;
  /// src (N, spatial..., channels), diff_dst and argmax (N, spatial'..., O); diff_weights in the layout of the
  /// description's weights, which is strided. Each argmax index must be inside its window.
  void run(const void* src, const void* diff_dst, const void* argmax, float* diff_weights, void* scratch) const;

 private:
  ops::ConvMaxPoolDesc d_;
  std::int64_t channels_;
  GradientSlots slots_;
};

/// Fills argmax indices with pseudo-random values 0 <= index < window_size, for measurements.
void fill_argmax(void* argmax, std::int64_t count, std::int64_t window_size);

/// The op for a src whose layout is channels-last.
ops::Expected<ops::ConvMaxPoolBackward> make_argmax_weights(const ops::ConvMaxPoolDesc& d);

}  // namespace keelson::kokkos
