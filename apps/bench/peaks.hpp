#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "apps/common/app.hpp"
#include "apps/common/subcommand.hpp"
#include "engine/ops/context.hpp"

/// What the machine reaches at best is measured and remembered.
namespace keelson::bench {

/// The largest values of all measurements.
struct MachinePeaks : DevicePeaks {
  std::int64_t measured = 0;  ///< when the last measurement was made: seconds since 1970
};

/// The peaks of one rank's device while all ranks of its node are at work. From the cache file if it knows this
/// host, processor, device and number of threads and ranks on the node, and was measured in the last 24 hours; else all
/// ranks measure at once, and the larger values of then and now are stored: something else may have been running at
/// one of these times. `remeasure`: measures, and forgets what was stored. A file that cannot be read or written only
/// means measuring again. The same values on all ranks (rank 0's). Collective.
MachinePeaks machine_peaks(Context& context, const app::Launch& launch, bool remeasure);

/// The device's peaks at several times of a run. Where other programs or virtual machines have a part of the processor,
/// its speed changes within seconds.
struct PeaksInRun {
  std::vector<DevicePeaks> samples;

  /// Measures all ranks' devices at once and adds rank 0's values. Collective.
  void measure(Context& context, Communicator& world);
  DevicePeaks mean() const;
  DevicePeaks largest() const;  ///< of each of the two values
};

/// Raises `peaks` to what was found in the run, here and in the cache file. On rank 0.
void raise(MachinePeaks& peaks, const PeaksInRun& found, Context& context, const app::Launch& launch);

/// peaks.json in cache_folder(); empty without that.
std::filesystem::path peaks_file();

/// "268.1 GFLOP/s (f32 multiply-adds in registers), 31.2 GB/s (copy, read + written); measured 3 hours ago".
std::string describe(const MachinePeaks& peaks);

/// "128.4 GFLOP/s (96.5 to 180.2), 13.1 GB/s (11.0 to 16.1)": means, least and most.
std::string describe(const PeaksInRun& peaks);

/// {"flops_per_second": ..., "copy_bytes_per_second": ..., "measured": ...}
nlohmann::json peaks_json(const MachinePeaks& peaks);

/// Declare --remeasure and --backend, which mean the same in all subcommands.
void option_remeasure(app::Subcommand& subcommand, bool& value);
void option_backend(app::Subcommand& subcommand, std::string& value);

}  // namespace keelson::bench
