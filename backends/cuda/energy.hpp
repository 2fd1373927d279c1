#pragma once

#include <string>

#include "engine/ops/device.hpp"

namespace keelson::cuda {

/// What the GPU at this PCI address ("0000:1b:00.0") has used since its driver was loaded: the energy counter of its
/// board, which GPUs have from Volta on. It is read through the driver's library libnvidia-ml.so.1 (NVML), which is
/// looked for when this is first called, so that nothing is linked.
DeviceEnergy energy_of(const std::string& bus);

}  // namespace keelson::cuda
