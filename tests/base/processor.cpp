#include "engine/base/processor.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace keelson {
namespace {
namespace fs = std::filesystem;

std::string model_in(const std::string& cpuinfo) {
  const auto file = fs::temp_directory_path() / ("keelson-cpuinfo-" + std::to_string(::getpid()));
  std::ofstream(file) << cpuinfo;
  const auto model = processor_model(file);
  fs::remove(file);
  return model;
}

TEST(Processor, IsNamedByTheSystem) {
  EXPECT_EQ(model_in("processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\n"
                     "model name\t: AMD EPYC 9655 96-Core Processor\ncpu cores\t: 96\n"),
            "AMD EPYC 9655 96-Core Processor");
  EXPECT_EQ(model_in("processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t\t: 3800.000000MHz\n"),
            "POWER9, altivec supported");
  EXPECT_EQ(model_in("processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\nCPU architecture: 8\n"
                     "CPU variant\t: 0x1\nCPU part\t: 0xd40\nCPU revision\t: 1\n"),
            "CPU implementer 0x41, part 0xd40");
  EXPECT_EQ(model_in("processor\t: 0\n"), "unknown processor");
  EXPECT_FALSE(processor_model().empty());
}

TEST(Processor, ValuesHaveTheirWholeKey) {
  EXPECT_EQ(system_values("/nonexistent/cpuinfo", "cpu"), std::vector<std::string>());
  EXPECT_FALSE(system_values("/proc/meminfo", "MemTotal").empty());
  EXPECT_TRUE(system_values("/proc/meminfo", "Mem").empty());
}

}  // namespace
}  // namespace keelson
