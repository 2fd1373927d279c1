#include "backends/cuda/energy.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace keelson::cuda {

namespace {

/// The functions of NVML that are needed here (NVML API reference: device queries). Status 0 is success.
struct Nvml {
  using Handle = struct nvmlDevice_st*;
  int (*init)() = nullptr;
  int (*by_bus)(const char* bus, Handle* device) = nullptr;
  int (*energy)(Handle device, unsigned long long* millijoules) = nullptr;
  const char* (*text)(int status) = nullptr;
  std::string missing;  ///< why NVML cannot be used; empty: it can

  Nvml() {
    void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);  // never closed: the driver's own library
    if (library == nullptr) {
      const char* const why = dlerror();
      missing =
          fmt::format("NVML, the library of NVIDIA's driver, cannot be loaded: {}", why ? why : "libnvidia-ml.so.1");
      return;
    }
    find(library, "nvmlInit_v2", init);
    find(library, "nvmlDeviceGetHandleByPciBusId_v2", by_bus);
    find(library, "nvmlDeviceGetTotalEnergyConsumption", energy);
    find(library, "nvmlErrorString", text);
    if (!missing.empty()) return;
    if (const int status = init(); status != 0) missing = fmt::format("NVML does not start: {}", text(status));
  }

 private:
  template <class Function>
  void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) missing = fmt::format("this driver's NVML has no {}", name);
  }
};

}  // namespace

DeviceEnergy energy_of(const std::string& bus) {
  static const Nvml nvml;
  if (!nvml.missing.empty()) return {std::nullopt, nvml.missing};
  Nvml::Handle device = nullptr;
  unsigned long long millijoules = 0;
  int status = nvml.by_bus(bus.c_str(), &device);
  if (status == 0) status = nvml.energy(device, &millijoules);
  if (status != 0) return {std::nullopt, fmt::format("NVML gives no energy of GPU {}: {}", bus, nvml.text(status))};
  return {1e-3 * static_cast<double>(millijoules), "the GPU's board (NVML)"};
}

}  // namespace keelson::cuda
