#pragma once

#include <cstdint>

#include "engine/tensor/tensor.hpp"

/// Kernels for gradients behind max pooling that are made of dense convolutions (backends/composed). Needs no Kokkos to
/// include.
namespace keelson::kokkos {

/// Planes of the gradient of a convolution's result, made from `diff`, the gradient of the pooled result (f32,
/// channels-last): zeros but for the elements that were the largest ones in their windows. `argmax` has the place in
/// the window, a byte for each element of `diff`. Windows stand side by side. `to` describes what is made, at `memory`:
/// whole samples from `first_sample` on, or planes of one sample from `first_plane` on; channels-last, f32 or 16-bit.
void unpool(const Shape& window, const Tensor& diff, const void* argmax, std::int64_t first_sample,
            std::int64_t first_plane, const TensorDesc& to, void* memory);

/// to[i] = from[i], rounded to `type`, which is 16-bit.
void round(const float* from, std::int64_t count, DType type, void* to);
/// to[i] += from[i]
void add(const float* from, std::int64_t count, float* to);

}  // namespace keelson::kokkos
