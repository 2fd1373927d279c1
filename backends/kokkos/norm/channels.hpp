#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/ops/eltwise.hpp"
#include "engine/tensor/dtype.hpp"

/// Kernels on matrices of `rows` x `channels` with contiguous channels. A channels-last tensor is such a matrix if the
/// position of a row does not matter. Values are f32, bf16 or f16; all arithmetic is f32. Used by convolutions and
/// dense layers whose products a library computes. Including this needs no Kokkos.
namespace keelson::kokkos {

/// values = activation(values + bias), in place. bias: f32, one per channel, or null.
void add_bias_and_activate(void* values, DType type, std::int64_t rows, std::int64_t channels, const float* bias,
                           const ops::EltwiseParams& activation);

/// dst = src, converted. Copies the channels that both have; further channels of dst become zero.
void copy_channels(const void* src, DType src_type, std::int64_t src_channels, void* dst, DType dst_type,
                   std::int64_t dst_channels, std::int64_t rows);

/// sums[c] = the sum of column c, always in the same order. scratch: channel_sums_scratch() bytes, 16-byte aligned.
std::size_t channel_sums_scratch(std::int64_t rows, std::int64_t channels);
void channel_sums(const void* values, DType type, std::int64_t rows, std::int64_t channels, float* sums, void* scratch);

}  // namespace keelson::kokkos
