#include "apps/bench/compare/energy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>

#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"

namespace keelson::bench::comparison {
namespace {

namespace fs = std::filesystem;

/// The first word of a file. If there is none: nothing, and the reason in `why`.
std::optional<std::string> word_of(const fs::path& file, std::string* why = nullptr) {
  errno = 0;
  std::ifstream in(file);
  std::string word;
  if (in >> word) return word;
  if (why)
    *why = fmt::format("{} cannot be read ({})", file.string(), errno != 0 ? std::strerror(errno) : "it is empty");
  return std::nullopt;
}

std::optional<std::uint64_t> counter_of(const fs::path& file, std::string* why = nullptr) {
  const auto word = word_of(file, why);
  if (!word) return std::nullopt;
  const auto number = parse_number<std::uint64_t>(*word);
  if (!number && why) *why = fmt::format("{} holds '{}', expected a number of microjoules", file.string(), *word);
  return number;
}

bool counts(const std::string& name, bool packages) {
  return packages ? name.starts_with("package") || name == "dram" : name == "psys";
}

/// The folders of the zones, sorted by name.
std::vector<fs::path> zone_folders(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (fs::directory_iterator i(folder, ignored), end; !ignored && i != end; i.increment(ignored))
    if (!i->path().filename().string().starts_with("intel-rapl-mmio") && word_of(i->path() / "name"))
      found.push_back(i->path());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

PowercapReader::PowercapReader(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    reason_ = fmt::format(
        "there is no {}: this system shows no energy counters (a virtual machine, or a kernel without "
        "CONFIG_INTEL_RAPL)",
        folder.string());
    return;
  }
  const auto folders = zone_folders(folder);
  std::vector<std::string> others;
  bool packages = false;
  for (const auto& f : folders) packages = packages || word_of(f / "name")->starts_with("package");
  for (const auto& f : folders) {
    const auto name = *word_of(f / "name");
    if (!counts(name, packages)) {
      others.push_back(name);
      continue;
    }
    Zone zone{name, f / "energy_uj"};
    const auto range = counter_of(f / "max_energy_range_uj", &reason_);
    if (!range || !counter_of(zone.counter, &reason_)) {
      reason_ +=
          "; since Linux 5.10 only root reads these counters: ask for 'chmod a+r " + folder.string() + "/*/energy_uj'";
      zones_.clear();
      return;
    }
    zone.range = *range;
    zones_.push_back(std::move(zone));
  }
  if (zones_.empty())
    reason_ = fmt::format("{} has no zone package-* or psys (found: {})", folder.string(),
                          others.empty() ? "none" : fmt::format("{}", fmt::join(others, ", ")));
}

std::string PowercapReader::zones() const {
  std::vector<std::string> names;
  for (const auto& z : zones_) names.push_back(z.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

void PowercapReader::start() {
  for (auto& z : zones_) {
    std::string why;
    const auto now = counter_of(z.counter, &why);
    if (!now) fail("{}", why);
    z.begin = *now;
  }
}

double PowercapReader::joules() const {
  double sum = 0;
  for (const auto& z : zones_) {
    std::string why;
    const auto now = counter_of(z.counter, &why);
    if (!now) fail("{}", why);
    sum += 1e-6 * static_cast<double>(*now >= z.begin ? *now - z.begin : *now + z.range - z.begin);
  }
  return sum;
}

EnergyMeter::EnergyMeter(Communicator& world, Device& device, const fs::path& powercap)
    : world_(world), device_(device), processors_(powercap) {
  // Ranks may share a GPU: the lowest of these ranks reads its counter.
  const auto reading = device.energy();
  const auto places = world.allgather(fmt::format("{} {}", world.host(), device.bus_id()));
  const auto& mine = places[static_cast<std::size_t>(world.rank())];
  const bool first = std::find(places.begin(), places.end(), mine) - places.begin() == world.rank();
  reads_device_ = reading.joules && first;
  reads_processors_ = world.local_rank() == 0 && processors_.reason().empty();

  // If one node or GPU has no counter, the sum leaves out this kind of counter on all of them.
  const auto common = [&](const std::string& why) {
    for (const auto& text : world_.allgather(why))
      if (!text.empty()) return text;
    return std::string();
  };
  const bool gpu = !device.shares_host_memory();
  const auto no_processors = common(world.local_rank() == 0 ? processors_.reason() : "");
  const auto no_device = common(reading.joules ? "" : reading.source);
  if (!no_processors.empty()) reads_processors_ = false;
  if (!no_device.empty()) reads_device_ = false;
  if (gpu && !no_device.empty())
    reason_ = no_device;
  else if (!gpu && !no_processors.empty())
    reason_ = no_processors;
  std::vector<std::string> parts;
  if (gpu && no_device.empty()) parts.push_back(reading.source);
  parts.push_back(no_processors.empty() ? fmt::format("processors and memory (RAPL: {})", processors_.zones())
                                        : fmt::format("without processors: {}", no_processors));
  source_ = fmt::format("{}", fmt::join(parts, "; "));
}

void EnergyMeter::start() {
  if (reads_processors_) processors_.start();
  if (reads_device_) device_begin_ = device_.energy().joules.value_or(0);
}

double EnergyMeter::joules() {
  double sum = 0;
  if (reads_processors_) sum += processors_.joules();
  if (reads_device_) sum += device_.energy().joules.value_or(device_begin_) - device_begin_;
  world_.allreduce(&sum, 1, Reduction::sum);
  return sum;
}

}  // namespace keelson::bench::comparison
