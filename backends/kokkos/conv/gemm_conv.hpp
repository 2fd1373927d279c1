#pragma once

#include <functional>

#include "engine/ops/conv.hpp"
#include "engine/ops/factory.hpp"
#include "engine/ops/matmul.hpp"

/// Convolution as matrix products, for devices on which a library multiplies matrices and none convolves: the windows
/// of the source are written out as rows of a matrix, piece by piece, and multiplied with the filters.
namespace keelson::kokkos {

using MakeMatMul = std::function<ops::Expected<ops::MatMul>(const ops::MatMulDesc&)>;

/// Channels-last tensors, weights as (O, kernel..., I/groups); f32, bf16 or f16. All products are made by
/// `make_matmul`; declined where that declines one of them. piece_bytes: of windows at a time, at most.
ops::Expected<ops::Conv> make_gemm_conv(const ops::ConvDesc& d, const MakeMatMul& make_matmul,
                                        std::size_t piece_bytes = std::size_t{256} << 20);

}  // namespace keelson::kokkos
