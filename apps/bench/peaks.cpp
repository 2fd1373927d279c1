#include "apps/bench/peaks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "apps/common/machine.hpp"
#include "apps/common/subcommand.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/base/cache_folder.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/small_file.hpp"

namespace keelson::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A readable text with everything that the values depend on. Builds for other instruction sets, and other versions,
/// may give other values.
std::string key_of(Context& context, const app::Launch& launch) {
  std::string key;
  for (const auto& [name, value] : app::describe_machine())
    if (name == "Host" || name == "Processor") key += value + "; ";
  return fmt::format("{}{}, vectors of {} floats; ranks on the node: {}; keelson {}", key, context.device().describe(),
                     context.device().vector_width(), launch.world.local_size(), KEELSON_VERSION);
}

/// The stored object: key -> values. Empty if the file is missing, is no regular file, or contains something else.
json stored(const fs::path& file) {
  const json all = json::parse(read_small_file(file.string()).value_or(""), nullptr, false);
  return all.is_object() ? all : json::object();
}

/// Zeros if the file does not know the key.
MachinePeaks find(const fs::path& file, const std::string& key) {
  const json all = stored(file);
  const auto entry = all.find(key);
  if (entry == all.end() || !entry->is_object()) return {};
  const auto number = [&](const char* name) {
    const auto value = entry->find(name);
    return value != entry->end() && value->is_number() ? std::max(0.0, value->get<double>()) : 0.0;
  };
  const auto measured = entry->find("measured");
  const bool known = measured != entry->end() && measured->is_number_integer();
  return {{number("flops_per_second"), number("copy_bytes_per_second")}, known ? measured->get<std::int64_t>() : 0};
}

bool is_recent(const MachinePeaks& p, std::int64_t now) {
  constexpr std::int64_t day = 24 * 3600;
  return p.flops_per_second > 0 && p.copy_bytes_per_second > 0 && p.measured > now - day && p.measured <= now;
}

void store(const fs::path& file, const std::string& key, const MachinePeaks& peaks) {
  try {
    fs::create_directories(file.parent_path());
    json all = stored(file);
    all[key] = peaks_json(peaks);
    write_atomically(file, all.dump(2) + "\n");
  } catch (const std::exception&) {  // the only effect is that the next run measures again
  }
}

DevicePeaks larger(const DevicePeaks& a, const DevicePeaks& b) {
  return {std::max(a.flops_per_second, b.flops_per_second), std::max(a.copy_bytes_per_second, b.copy_bytes_per_second)};
}

/// "128.4 GFLOP/s (96.5 to 180.2)"
std::string with_range(const PeaksInRun& peaks, double DevicePeaks::* value, const char* unit) {
  double least = peaks.largest().*value;
  for (const auto& s : peaks.samples) least = std::min(least, s.*value);
  return fmt::format("{:.1f} {} ({:.1f} to {:.1f})", peaks.mean().*value * 1e-9, unit, least * 1e-9,
                     peaks.largest().*value * 1e-9);
}

}  // namespace

fs::path peaks_file() {
  const auto folder = cache_folder();
  return folder.empty() ? folder : folder / "peaks.json";
}

MachinePeaks machine_peaks(Context& context, const app::Launch& launch, bool remeasure) {
  auto& world = launch.world;
  const auto file = peaks_file();
  const auto key = key_of(context, launch);
  const std::int64_t now = std::time(nullptr);
  MachinePeaks peaks;
  if (world.rank() == 0 && !remeasure && !file.empty()) peaks = find(file, key);
  std::int64_t recent = is_recent(peaks, now);
  world.broadcast(&recent, sizeof recent, 0);
  if (!recent) {
    world.barrier();
    const auto found = context.device().measure_peaks();
    peaks = {larger(peaks, found), now};
    if (world.rank() == 0 && !file.empty()) store(file, key, peaks);
  }
  world.broadcast(&peaks, sizeof peaks, 0);
  return peaks;
}

void PeaksInRun::measure(Context& context, Communicator& world) {
  world.barrier();
  DevicePeaks found = context.device().measure_peaks();
  world.broadcast(&found, sizeof found, 0);
  samples.push_back(found);
}

DevicePeaks PeaksInRun::mean() const {
  const auto count = static_cast<double>(samples.size());
  DevicePeaks sum;
  for (const auto& s : samples) {
    sum.flops_per_second += s.flops_per_second / count;
    sum.copy_bytes_per_second += s.copy_bytes_per_second / count;
  }
  return sum;
}

DevicePeaks PeaksInRun::largest() const {
  DevicePeaks all;
  for (const auto& s : samples) all = larger(all, s);
  return all;
}

void raise(MachinePeaks& peaks, const PeaksInRun& found, Context& context, const app::Launch& launch) {
  const DevicePeaks raised = larger(peaks, found.largest());
  if (raised.flops_per_second <= peaks.flops_per_second && raised.copy_bytes_per_second <= peaks.copy_bytes_per_second)
    return;
  peaks = {raised, std::time(nullptr)};
  if (const auto file = peaks_file(); !file.empty()) store(file, key_of(context, launch), peaks);
}

std::string describe(const PeaksInRun& p) {
  return with_range(p, &DevicePeaks::flops_per_second, "GFLOP/s") + ", " +
         with_range(p, &DevicePeaks::copy_bytes_per_second, "GB/s");
}

std::string describe(const MachinePeaks& p) {
  const auto minutes = std::max<std::int64_t>(0, std::time(nullptr) - p.measured) / 60;
  const auto age = minutes < 1    ? "just now"
                   : minutes < 60 ? counted(minutes, "minute") + " ago"
                                  : counted(minutes / 60, "hour") + " ago";
  return fmt::format("{:.1f} GFLOP/s (f32 multiply-adds in registers), {:.1f} GB/s (copy, read + written); measured {}",
                     p.flops_per_second * 1e-9, p.copy_bytes_per_second * 1e-9, age);
}

json peaks_json(const MachinePeaks& p) {
  return {{"flops_per_second", p.flops_per_second},
          {"copy_bytes_per_second", p.copy_bytes_per_second},
          {"measured", p.measured}};
}

void option_remeasure(app::Subcommand& subcommand, bool& value) {
  subcommand.flag(
      "--remeasure", value,
      "Measure the machine's peaks again, and forget the values of before. Otherwise those are kept for a day in "
      "peaks.json in the folder KEELSON_CACHE (~/.cache/keelson), and then the larger values stay");
}

void option_backend(app::Subcommand& subcommand, std::string& value) {
  subcommand.option_without_default(
      "--backend", value, "Backends to use, in this order; default: KEELSON_BACKEND, else all backends of this build",
      "NAME,...");
}

}  // namespace keelson::bench
