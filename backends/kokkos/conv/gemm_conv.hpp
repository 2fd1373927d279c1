#pragma once

#include <functional>

#include "engine/ops/conv.hpp"
#include "engine/ops/factory.hpp"
#include "engine/ops/matmul.hpp"

/// Convolution as matrix products, for devices with a library for matrix products but none for convolutions, and for
/// convolutions that other kernels do not suit. The windows of the source are copied to rows of a matrix, piece by
/// piece, and multiplied with the filters.
namespace keelson::kokkos {

using MakeMatMul = std::function<ops::Expected<ops::MatMul>(const ops::MatMulDesc&)>;

/// Channels-last tensors, weights as (O, kernel..., I/groups); f32, bf16 or f16. `make_matmul` makes all products;
/// declined if `make_matmul` declines a product. piece_bytes: the limit of the windows at a time.
ops::Expected<ops::Conv> make_gemm_conv(const ops::ConvDesc& d, const MakeMatMul& make_matmul,
                                        std::size_t piece_bytes = std::size_t{256} << 20);

/// The same as a candidate, for f32 and windows of few values, since src has few channels: as in the first
/// layer of a network, or in the transposed convolution that ends a network for segmentation, whose results are src
/// here. Other kernels need many channels on both sides to fill vectors and registers.
ops::Expected<ops::Conv> make_few_channels_conv(const ops::ConvDesc& d, const MakeMatMul& make_matmul);

/// The same for kernels of one element, as a candidate for the gradient of the weights: a product of two matrices that
/// are in memory, whose result needs no reorder. For the other verbs, oneDNN's kernels are faster.
ops::Expected<ops::Conv> make_pointwise_conv(const ops::ConvDesc& d, ops::Verb verb, const MakeMatMul& make_matmul);

}  // namespace keelson::kokkos
