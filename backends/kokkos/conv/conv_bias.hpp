#pragma once

#include "backends/kokkos/common/kernel.hpp"

/// The gradient of a convolution's bias: the sums of diff_dst over all positions.
namespace keelson::kokkos {

inline constexpr int bias_lanes = 16;

/// Sums of diff_dst over the positions of a slot, in f64: (slot, channel).
struct BiasSlots {
  const float* diff;
  Volume dst;
  Index lines_per_slot;
  double* partial;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index blocks = ceil_div(dst.c, bias_lanes);
    const Index first = item % blocks * bias_lanes, slot = item / blocks;
    const int count = static_cast<int>(first + bias_lanes < dst.c ? bias_lanes : dst.c - first);
    const Index lines = dst.n * dst.extent[0] * dst.extent[1], begin = slot * lines_per_slot;
    const Index end = begin + lines_per_slot < lines ? begin + lines_per_slot : lines;
    double sum[bias_lanes] = {};
    for (Index line = begin; line < end; ++line) {
      const Index h = line % dst.extent[1], d = line / dst.extent[1] % dst.extent[0],
                  n = line / (dst.extent[1] * dst.extent[0]);
      const float* x = diff + n * dst.stride_n + d * dst.stride[0] + h * dst.stride[1] + first * dst.stride_c;
      for (Index w = 0; w < dst.extent[2]; ++w, x += dst.stride[2]) {
        if (count == bias_lanes && dst.stride_c == 1)
          for (int c = 0; c < bias_lanes; ++c) sum[c] += static_cast<double>(x[c]);
        else
          for (int c = 0; c < count; ++c) sum[c] += static_cast<double>(x[c * dst.stride_c]);
      }
    }
    for (int c = 0; c < count; ++c) partial[slot * dst.c + first + c] = sum[c];
  }
};

struct AddBias {
  const double* partial;
  Index slots, channels;
  float* diff_bias;
  KOKKOS_FUNCTION void operator()(Index c) const {
    double sum = 0;
    for (Index s = 0; s < slots; ++s) sum += partial[s * channels + c];
    diff_bias[c] = static_cast<float>(sum);
  }
};

/// Both passes over an f32 gradient of this shape and layout. The sums do not depend on the number of threads.
class BiasSums {
 public:
  explicit BiasSums(const Volume& diff) : diff_(diff), lines_per_slot_(ceil_div(lines(), most_slots)) {}
  std::size_t scratch_bytes() const { return static_cast<std::size_t>(slots() * diff_.c) * sizeof(double); }
  void run(const float* diff, float* diff_bias, void* scratch) const {
    constexpr const char *slots_label = "keelson::bias_gradient::slots", *label = "keelson::bias_gradient::add";
    auto* const partial = static_cast<double*>(scratch);
    launch(slots_label, slots() * ceil_div(diff_.c, Index{bias_lanes}),
           BiasSlots{diff, diff_, lines_per_slot_, partial});
    launch(label, diff_.c, AddBias{partial, slots(), diff_.c, diff_bias});
  }

 private:
  static constexpr Index most_slots = 64;
  Index lines() const { return diff_.n * diff_.extent[0] * diff_.extent[1]; }
  Index slots() const { return ceil_div(lines(), lines_per_slot_); }

  Volume diff_;
  Index lines_per_slot_;
};

}  // namespace keelson::kokkos
