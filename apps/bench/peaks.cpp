#include "apps/bench/peaks.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "apps/common/machine.hpp"
#include "apps/common/verb.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/base/small_file.hpp"

namespace keelson::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A readable text with everything that the values depend on. Builds for other instruction sets, and other versions,
/// may give other values.
std::string key_of(Context& context, const app::Job& job) {
  std::string key;
  for (const auto& [name, value] : app::describe_machine())
    if (name == "Host" || name == "Processor") key += value + "; ";
  return fmt::format("{}{}, vectors of {} floats; ranks on the node: {}; keelson {}", key, context.device().describe(),
                     context.device().vector_width(), job.world.local_size(), KEELSON_VERSION);
}

/// The stored object: key -> values. Empty if the file is missing, is no regular file, or contains something else.
json stored(const fs::path& file) {
  const json all = json::parse(read_small_file(file.string()).value_or(""), nullptr, false);
  return all.is_object() ? all : json::object();
}

bool find(const fs::path& file, const std::string& key, DevicePeaks& peaks) {
  const json all = stored(file);
  const auto entry = all.find(key);
  if (entry == all.end() || !entry->is_object()) return false;
  const auto number = [&](const char* name) {
    const auto value = entry->find(name);
    return value != entry->end() && value->is_number() ? value->get<double>() : 0.0;
  };
  peaks = {number("flops_per_second"), number("copy_bytes_per_second")};
  return peaks.flops_per_second > 0 && peaks.copy_bytes_per_second > 0;
}

void store(const fs::path& file, const std::string& key, const DevicePeaks& peaks) {
  try {
    fs::create_directories(file.parent_path());
    json all = stored(file);
    all[key] = peaks_json(peaks);
    write_atomically(file, all.dump(2) + "\n");
  } catch (const std::exception&) {  // the only effect is that the next run measures again
  }
}

}  // namespace

fs::path peaks_file() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return fs::path(cache) / "keelson/peaks.json";
  if (const char* home = std::getenv("HOME"); home && *home) return fs::path(home) / ".cache/keelson/peaks.json";
  return {};
}

DevicePeaks machine_peaks(Context& context, const app::Job& job, bool remeasure) {
  auto& world = job.world;
  const auto file = peaks_file();
  const auto key = key_of(context, job);
  DevicePeaks peaks;
  std::int64_t known = world.rank() == 0 && !remeasure && !file.empty() && find(file, key, peaks);
  world.broadcast(&known, sizeof known, 0);
  if (!known) {
    world.barrier();
    peaks = context.device().measure_peaks();
    if (world.rank() == 0 && !file.empty()) store(file, key, peaks);
  }
  world.broadcast(&peaks, sizeof peaks, 0);
  return peaks;
}

std::string describe(const DevicePeaks& p) {
  return fmt::format("{:.1f} GFLOP/s (f32 multiply-adds in registers), {:.1f} GB/s (copy, read + written)",
                     p.flops_per_second * 1e-9, p.copy_bytes_per_second * 1e-9);
}

json peaks_json(const DevicePeaks& p) {
  return {{"flops_per_second", p.flops_per_second}, {"copy_bytes_per_second", p.copy_bytes_per_second}};
}

void option_remeasure(app::Verb& verb, bool& value) {
  verb.flag("--remeasure", value,
            "Measure the machine's peaks again, instead of reading them from $XDG_CACHE_HOME/keelson/peaks.json (or "
            "~/.cache)");
}

void option_backend(app::Verb& verb, std::string& value) {
  verb.option_without_default(
      "--backend", value, "Backends to use, in this order; default: KEELSON_BACKEND, else all backends of this build",
      "NAME,...");
}

}  // namespace keelson::bench
