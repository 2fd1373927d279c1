#pragma once

#include <memory>
#include <string>

#include "engine/ops/context.hpp"

namespace keelson::backends {

/// Memory of Kokkos' default execution space. Kokkos must be initialized (see Runtime) and must outlive the device and
/// its memory. `libraries`: versions of other libraries whose algorithms Device::autotuner() times, as in the name of
/// the tuner's file: "-onednn-3.7.1".
std::unique_ptr<Device> make_kokkos_device(const std::string& libraries = "");

/// Every op, f32, in any strided layout; flat element-wise work also on layouts of other backends. The device must
/// outlive the factory.
std::unique_ptr<ops::OpFactory> make_kokkos_factory(Device& device);

}  // namespace keelson::backends
