#pragma once

#include <memory>

#include "engine/ops/factory.hpp"

namespace keelson {
class Device;
}

/// Ops that consist of other ops, of any backend.
namespace keelson::composed {

/// Only tables of candidates, for devices with small caches: a convolution with pooling by depth tiles, a convolution
/// and then pooling, and (`with_kokkos`: the context has the Kokkos backend, whose kernels are needed) the gradients of
/// both by dense convolutions. The factory asks its context for the parts.
std::unique_ptr<ops::OpFactory> make_factory(Device& device, bool with_kokkos);

}  // namespace keelson::composed
