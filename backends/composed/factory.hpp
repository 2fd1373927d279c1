#pragma once

#include <memory>

#include "engine/ops/factory.hpp"

namespace keelson {
class Device;
}

/// Ops that are made of other ops, whichever backends make those.
namespace keelson::composed {

/// Tables of candidates alone, for devices with small caches: a convolution with pooling by depth tiles or one after
/// the other, and (`with_kokkos`: the context has the Kokkos backend, whose kernels it needs) the gradients behind
/// pooling by dense convolutions. The factory asks the context that it joins for the parts.
std::unique_ptr<ops::OpFactory> make_factory(Device& device, bool with_kokkos);

}  // namespace keelson::composed
