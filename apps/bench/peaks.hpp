#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "apps/common/app.hpp"
#include "apps/common/verb.hpp"
#include "engine/ops/context.hpp"

/// The machine's peaks are measured once and kept in a file.
namespace keelson::bench {

/// The peaks of one rank's device while all ranks of its node are at work. Read from the cache file if the file has an
/// entry for this host, processor, device, number of threads and ranks on the node, and `remeasure` is false; else
/// measured by all ranks at once and stored. If the file cannot be read or written, the peaks are measured again. All
/// ranks get rank 0's values. Collective.
DevicePeaks machine_peaks(Context& context, const app::Job& job, bool remeasure);

/// $XDG_CACHE_HOME/keelson/peaks.json, or below ~/.cache; empty if neither is known.
std::filesystem::path peaks_file();

/// "268.1 GFLOP/s (f32 multiply-adds in registers), 31.2 GB/s (copy, read + written)".
std::string describe(const DevicePeaks& peaks);

nlohmann::json peaks_json(const DevicePeaks& peaks);  ///< {"flops_per_second": ..., "copy_bytes_per_second": ...}

/// Declare --remeasure and --backend, which mean the same in all verbs.
void option_remeasure(app::Verb& verb, bool& value);
void option_backend(app::Verb& verb, std::string& value);

}  // namespace keelson::bench
