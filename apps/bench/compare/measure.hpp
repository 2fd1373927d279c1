#pragma once

#include <string>
#include <vector>

#include "apps/bench/compare/energy.hpp"
#include "apps/bench/compare/machine_file.hpp"
#include "apps/common/app.hpp"
#include "apps/common/device_options.hpp"

namespace keelson::bench::comparison {

/// The user's options.
struct MeasureOptions {
  std::string name;           ///< of the machine; empty: its host's
  double price_per_hour = 0;  ///< of the whole job; 0: none
  bool quick = false, remeasure = false;
  std::vector<std::string> nets;  ///< empty: all
  std::vector<std::string>
      sizes;  ///< "small", "published", or as --size; empty: small, and without quick also published
  std::vector<std::string> precisions;  ///< empty: those for which the device has multiply instructions
  std::int64_t batch = 0;               ///< samples of a rank; 0: as in the recipe, on a GPU eight times as many
  double step_limit = 0;                ///< steps that take more seconds are left out; 0: 8, with quick 1
  std::string data;                     ///< universes to read; empty: made-up ones
  std::string scratch;                  ///< folder for made-up universes; all ranks see it
  std::string powercap = powercap_folder;
  app::DeviceOptions device;
  std::string backend;
};

/// Throws InputError for networks, sizes and precisions that do not exist.
void check(const MeasureOptions& options);

/// Measures everything, and prints the progress on stderr. If a machine lacks something, or has no time or memory for
/// it, the figure is missing. The result is the same on all ranks, except for figures of single ranks, where each rank
/// has its own; only rank 0's are used. Collective.
MachineFile measure_machine(const MeasureOptions& options, app::Launch& launch);

}  // namespace keelson::bench::comparison
