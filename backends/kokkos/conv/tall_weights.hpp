#pragma once

#include "backends/kokkos/conv/conv_geometry.hpp"

namespace keelson::kokkos {

/// ConvWeightsGradient for the registers of AVX-512 and AVX: tiles of up to 24 input channels and one vector of output
/// channels, or of up to 6 and two vectors. Taps leave out all that is padding. diff_dst is packed, and so is a block
/// of src for each tile; the block stays in the first cache level until all taps and output channels have used it. The
/// result does not depend on the number of threads.
class TallWeightsGradient {
 public:
  /// Whether tiles have no empty rows or lanes: one group, channels-last, 16 channels and more.
  static bool suits(const ConvGeometry& g);

  explicit TallWeightsGradient(const ConvGeometry& g);

  std::size_t scratch_bytes() const;
  std::string name() const;
  void run(const float* src, const float* diff_dst, float* diff_weights, char* scratch) const;

 private:
  template <int rows>
  void multiply(const float* src, const float* diff, float* sums) const;
  std::size_t diff_bytes() const;

  ConvGeometry g_;
  Index rows_, tiles_, panels_;
};

}  // namespace keelson::kokkos
