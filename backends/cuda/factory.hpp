#pragma once

#include <memory>

#include "engine/ops/context.hpp"

namespace keelson::cuda {

/// Convolution, dense layers, matrix products, and roots and inverses of matrices by NVIDIA's libraries, on the device
/// that Kokkos was started on. The device must outlive the factory.
std::unique_ptr<ops::OpFactory> make_factory(Device& device);

}  // namespace keelson::cuda
