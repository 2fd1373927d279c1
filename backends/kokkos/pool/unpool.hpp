#pragma once

#include <cstdint>

#include "engine/tensor/tensor.hpp"

/// Kernels for gradients of max pooling by dense convolutions (backends/composed). Including this needs no Kokkos.
namespace keelson::kokkos {

/// Computes planes of the gradient of a convolution's result from `diff`, the gradient of the pooled result (f32,
/// channels-last): zero except for the maxima of the windows. `argmax` has the index in the window, a byte for each
/// element of `diff`. The windows have no gap or overlap. `to` describes the result at `memory`: whole samples from
/// `first_sample` on, or planes of one sample from `first_plane` on; channels-last, f32 or 16-bit.
void unpool(const Shape& window, const Tensor& diff, const void* argmax, std::int64_t first_sample,
            std::int64_t first_plane, const TensorDesc& to, void* memory);

/// to[i] = from[i], rounded to `type`, a 16-bit type.
void round(const float* from, std::int64_t count, DType type, void* to);
/// to[i] += from[i]
void add(const float* from, std::int64_t count, float* to);

}  // namespace keelson::kokkos
