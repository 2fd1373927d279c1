#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "apps/bench/compare/measurement.hpp"
#include "apps/common/machine.hpp"
#include "engine/base/processor.hpp"

namespace keelson::bench::comparison {
namespace {

/// The loaded shared libraries whose versions matter for speed: "libdnnl.so.3.12".
std::string loaded_libraries() {
  constexpr std::array<std::string_view, 13> known = {
      "libkokkoscore", "libdnnl",     "libmpi.",     "libhdf5.", "libfftw3", "libgomp",     "libomp.",
      "libcudart",     "libcublasLt", "libcusolver", "libcudnn", "libnccl",  "libnvidia-ml"};
  std::set<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto slash = line.find('/');
    if (slash == std::string::npos) continue;
    const auto name = std::filesystem::path(line.substr(slash)).filename().string();
    if (std::any_of(known.begin(), known.end(), [&](auto prefix) { return name.starts_with(prefix); }))
      found.insert(name);
  }
  return fmt::format("{}", fmt::join(found, ", "));
}

}  // namespace

std::vector<std::string> processor_features() {
  constexpr std::array<std::string_view, 16> matter = {
      "avx2",     "fma",      "avx512f", "avx512_bf16", "avx512_fp16", "avx_vnni", "avx512_vnni", "amx_tile",
      "amx_bf16", "amx_fp16", "asimd",   "asimdhp",     "sve",         "sve2",     "bf16",        "svebf16"};
  std::vector<std::string> found;
  for (const char* key : {"flags", "Features", "cpu"}) {  // x86, Arm, Power
    const auto lines = system_values("/proc/cpuinfo", key);
    if (lines.empty()) continue;
    std::istringstream words(lines[0]);
    for (std::string word; words >> word;)
      if (std::find(matter.begin(), matter.end(), word) != matter.end()) found.push_back(word);
    break;
  }
  return found;
}

std::vector<std::pair<std::string, std::string>> machine_facts(Device& device) {
  auto facts = app::describe_machine();
  const auto add = [&](const char* name, const std::string& text) {
    if (!text.empty()) facts.emplace_back(name, text);
  };
  add("Instructions", fmt::format("{}", fmt::join(processor_features(), " ")));
  add("Device", device.describe());
  if (device.shares_host_memory())
    add("Own kernels", fmt::format("compiled for vectors of {} floats", device.vector_width()));
  add("Shared libraries", loaded_libraries());
  return facts;
}

}  // namespace keelson::bench::comparison
