#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/ops/device.hpp"

/// What a machine uses, in joules, where its counters can be read.
namespace keelson::bench::comparison {

/// Where Linux shows the processors' energy counters (RAPL, of Intel and AMD alike).
inline constexpr const char* powercap_folder = "/sys/class/powercap";

/// The energy counters of this node's processors and memory, as Linux shows them (Documentation/power/powercap): a
/// folder per zone with the files name, energy_uj and max_energy_range_uj. What is counted: every zone "package-*",
/// which has the cores and what is beside them on the chip, and every zone "dram", which is beside the packages. Zones
/// "core" and "uncore" are parts of packages; "psys" has all of these and counts only where no package does; zones of
/// the control type "intel-rapl-mmio" are the packages once more, read in another way.
class PowercapReader {
 public:
  explicit PowercapReader(const std::filesystem::path& folder = powercap_folder);

  const std::string& reason() const { return reason_; }  ///< why nothing can be measured; empty: it can
  /// "package-0, dram"
  std::string zones() const;
  /// Takes the counters now.
  void start();
  /// Joules since start(). A counter that has begun anew counts on from its range; it must not do so twice. Throws
  /// Error for a counter that can no longer be read.
  double joules() const;

 private:
  struct Zone {
    std::string name;
    std::filesystem::path counter;
    std::uint64_t range = 0;  ///< microjoules at which the counter begins anew
    std::uint64_t begin = 0;  ///< microjoules at start()
  };
  std::vector<Zone> zones_;
  std::string reason_;
};

/// The energy of a job: processors and memory of each of its nodes, whoever uses them, and the GPUs that its ranks
/// compute on, each once.
class EnergyMeter {
 public:
  /// `world` and `device` must outlive it. Collective.
  EnergyMeter(Communicator& world, Device& device, const std::filesystem::path& powercap = powercap_folder);

  const std::string& reason() const { return reason_; }  ///< why nothing can be measured; empty: it can. On all ranks
  const std::string& source() const { return source_; }  ///< what is counted, and what is not
  void start();                                          ///< takes the counters now
  double joules();                                       ///< of the whole job since start(), on all ranks; collective

 private:
  Communicator& world_;
  Device& device_;
  PowercapReader processors_;
  bool reads_processors_ = false, reads_device_ = false;  ///< this rank does, for its node and its GPU
  double device_begin_ = 0;
  std::string reason_, source_;
};

}  // namespace keelson::bench::comparison
