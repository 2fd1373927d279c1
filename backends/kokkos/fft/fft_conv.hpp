#pragma once

#include "engine/ops/conv.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

/// One verb of a convolution of images, for CPUs, by Fourier transforms of tiles of 16 x 16 elements; the other verbs
/// fail. A tile has 17 - r results along a dim with r taps, and takes 508 multiplications for each pair of
/// channels: 3.5 for each result of a kernel of 5 x 5, where Winograd's algorithm takes 9 and a direct convolution 25.
///
/// f32; in the forward pass src and weights may be bf16 (products and sums are f32). channels-last src and dst, two
/// spatial dims, kernels of at least 4 and at most 9 taps along one of them, stride and dilation 1, one group; channels
/// that suit the vector registers. Weights may have any strides. Results do not depend on the number of threads.
/// Rounding: the mean error is about that of a direct convolution. A NaN or an infinity reaches all results of its
/// tile.
///
/// Source: M. Mathieu, M. Henaff, Y. LeCun, "Fast Training of Convolutional Networks through FFTs", ICLR 2014
/// (arXiv:1312.5851); by tiles: A. Zlateski, Z. Jia, K. Li, F. Durand, "FFT Convolutions are Faster than Winograd on
/// Modern CPUs, Here's Why" (arXiv:1809.07851).
ops::Expected<ops::Conv> make_fft_conv(const ops::ConvDesc& d, ops::Verb verb);

}  // namespace keelson::kokkos
