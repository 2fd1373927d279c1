#include "engine/base/processor.hpp"

#include <fmt/format.h>

#include <fstream>

namespace keelson {

std::vector<std::string> system_values(const std::filesystem::path& file, const std::string& key) {
  std::vector<std::string> found;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(key)) continue;
    if (line.find_first_not_of(" \t", key.size()) != colon) continue;
    const auto start = line.find_first_not_of(" \t", colon + 1);
    found.push_back(start == std::string::npos ? "" : line.substr(start));
  }
  return found;
}

std::string processor_model(const std::filesystem::path& cpuinfo) {
  for (const char* key : {"model name", "cpu"})  // x86 and some Arm; Power
    if (const auto models = system_values(cpuinfo, key); !models.empty()) return models[0];
  const auto implementers = system_values(cpuinfo, "CPU implementer"), parts = system_values(cpuinfo, "CPU part");
  if (!implementers.empty() && !parts.empty())
    return fmt::format("CPU implementer {}, part {}", implementers[0], parts[0]);
  return "unknown processor";
}

}  // namespace keelson
