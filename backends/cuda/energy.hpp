#pragma once

#include <string>

#include "engine/ops/device.hpp"

namespace keelson::cuda {

/// The energy that the GPU at this PCI address ("0000:1b:00.0") has used since its driver was loaded: the energy
/// counter of the board, which GPUs have from Volta on. The counter is read through the driver's library
/// libnvidia-ml.so.1 (NVML), which the first call loads, so that nothing is linked.
DeviceEnergy energy_of(const std::string& bus);

}  // namespace keelson::cuda
