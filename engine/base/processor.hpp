#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace keelson {

/// The values of the lines "key : value" with this key in a file such as /proc/cpuinfo or /proc/meminfo. Empty if the
/// file cannot be read.
std::vector<std::string> system_values(const std::filesystem::path& file, const std::string& key);

/// The model of this machine's processor as the system names it: "AMD EPYC 9655 96-Core Processor", "POWER9, altivec
/// supported"; on Arm "CPU implementer 0x41, part 0xd40". "unknown processor" if the system does not name it.
std::string processor_model(const std::filesystem::path& cpuinfo = "/proc/cpuinfo");

}  // namespace keelson
