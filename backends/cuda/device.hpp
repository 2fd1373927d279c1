#pragma once

#include <memory>

#include "engine/ops/context.hpp"

namespace keelson::cuda {

/// The GPU that Kokkos was started on, and its memory. Kokkos outlives the device and its memory.
std::unique_ptr<Device> make_device();

}  // namespace keelson::cuda
