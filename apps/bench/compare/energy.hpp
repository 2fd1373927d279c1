#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/ops/device.hpp"

/// The energy that a machine uses, in joules, if its counters can be read.
namespace keelson::bench::comparison {

/// The folder in which Linux shows the processors' energy counters (RAPL; Intel and AMD).
inline constexpr const char* powercap_folder = "/sys/class/powercap";

/// The energy counters of this node's processors and memory, as Linux shows them (Documentation/power/powercap): a
/// folder per zone with the files name, energy_uj and max_energy_range_uj. These zones are added up: every zone
/// "package-*" (the whole chip), and every zone "dram", which is not part of a package. Zones "core" and "uncore" are
/// parts of packages. Zone "psys" contains all of these and is used only if there is no package. Zones of the control
/// type "intel-rapl-mmio" are the same packages, read in another way.
class PowercapReader {
 public:
  explicit PowercapReader(const std::filesystem::path& folder = powercap_folder);

  const std::string& reason() const { return reason_; }  ///< why nothing can be measured; empty: energy can be measured
  /// "package-0, dram"
  std::string zones() const;
  /// Reads the counters now.
  void start();
  /// Joules since start(). A counter may wrap around once, not more. Throws Error if a counter can no longer be read.
  double joules() const;

 private:
  struct Zone {
    std::string name;
    std::filesystem::path counter;
    std::uint64_t range = 0;  ///< microjoules at which the counter wraps around
    std::uint64_t begin = 0;  ///< microjoules at start()
  };
  std::vector<Zone> zones_;
  std::string reason_;
};

/// The energy of a job: processors and memory of each of its nodes (including what other jobs use there), and the GPUs
/// on which its ranks compute, each GPU once.
class EnergyMeter {
 public:
  /// `world` and `device` must outlive this object. Collective.
  EnergyMeter(Communicator& world, Device& device, const std::filesystem::path& powercap = powercap_folder);

  /// Why nothing can be measured; empty: energy can be measured. The same on all ranks.
  const std::string& reason() const { return reason_; }
  const std::string& source() const { return source_; }  ///< what is counted, and what is not
  void start();                                          ///< reads the counters now
  double joules();                                       ///< of the whole job since start(), on all ranks; collective

 private:
  Communicator& world_;
  Device& device_;
  PowercapReader processors_;
  bool reads_processors_ = false,
       reads_device_ = false;  ///< whether this rank reads the counters of its node and its GPU
  double device_begin_ = 0;
  std::string reason_, source_;
};

}  // namespace keelson::bench::comparison
