#pragma once

#include <string>
#include <vector>

#include "apps/bench/compare/energy.hpp"
#include "apps/bench/compare/machine_file.hpp"
#include "apps/common/app.hpp"
#include "apps/common/device_options.hpp"

namespace keelson::bench::comparison {

/// What the user asks for.
struct MeasureOptions {
  std::string name;           ///< of the machine; empty: its host's
  double price_per_hour = 0;  ///< of the whole job; 0: none
  bool quick = false, remeasure = false;
  std::vector<std::string> nets;   ///< empty: all
  std::vector<std::string> sizes;  ///< "small", "published", or as --size; empty: small, and published unless quick
  std::vector<std::string> precisions;  ///< empty: those that the device multiplies in
  std::int64_t batch = 0;               ///< of a rank; 0: the recipe's, on a GPU eight times that
  double step_limit = 0;                ///< seconds of a step beyond which it is left out; 0: 8, quick 1
  std::string data;                     ///< universes to read; empty: made-up ones
  std::string scratch;                  ///< folder for those; all ranks see it
  std::string powercap = powercap_folder;
  app::DeviceOptions device;
  std::string backend;
};

/// Throws InputError for networks, sizes and precisions that there are not.
void check(const MeasureOptions& options);

/// Measures everything, with lines on stderr that tell how far it is. What a machine lacks, or has no time or memory
/// for, is a missing figure. The same on all ranks but for figures of single ranks, where rank 0's count. Collective.
MachineFile measure_machine(const MeasureOptions& options, app::Job& job);

}  // namespace keelson::bench::comparison
