#pragma once

#include <cstdint>
#include <string>

#include "engine/ops/conv_max_pool.hpp"
#include "engine/ops/factory.hpp"

/// ops::ConvMaxPoolBackward on GPUs: the gradient of the weights alone, which is all that a first layer needs. Also for
/// backends that lay src out in their own way. Needs no Kokkos to include.
namespace keelson::kokkos {

/// "" where the argmax indices are all that the gradients need, and worth it: one group, stride and dilation 1, windows
/// side by side; else the reason why not. For all processors.
std::string unfit_for_argmax(const ops::ConvMaxPoolDesc& d);
/// "" where ArgmaxWeights computes backward_weights of this description, but for the layout of src; else why not.
std::string unfit_for_argmax_weights(const ops::ConvMaxPoolDesc& d);

/// diff_weights[o][tap][c] = sum over windows of diff_dst[window][o] * src[position of the maximum + tap][c], in f32,
/// in an order that depends on the description alone.
class ArgmaxWeights {
 public:
  /// `channels`: those that each element of src has in memory, side by side; the first ones are those of its shape.
  ArgmaxWeights(const ops::ConvMaxPoolDesc& d, std::int64_t channels);

  std::size_t scratch_bytes() const;
  ops::Cost cost() const;
  /// src (N, spatial..., channels), diff_dst and argmax (N, spatial'..., O), diff_weights as the layout of
  /// the description's weights says, which is strided. Indices must lie within the window.
  void run(const void* src, const void* diff_dst, const void* argmax, float* diff_weights, void* scratch) const;

 private:
  std::int64_t columns() const;

  ops::ConvMaxPoolDesc d_;
  std::int64_t channels_, slots_;
};

/// Fills argmax indices as a pooling may leave them, 0 <= index < places, without a pattern: to measure with.
void fill_argmax(void* argmax, std::int64_t count, std::int64_t places);

/// The op for a src whose layout is channels-last.
ops::Expected<ops::ConvMaxPoolBackward> make_argmax_weights(const ops::ConvMaxPoolDesc& d);

}  // namespace keelson::kokkos
