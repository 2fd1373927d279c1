#include "backends/cuda/energy.hpp"

#include <gtest/gtest.h>

namespace keelson::cuda {
namespace {

/// With a driver NVML does not know this GPU; without one there is no NVML.
TEST(Energy, OfAGpuThatIsNotThereIsMissingWithTheReason) {
  const auto energy = energy_of("ffff:ff:1f.0");
  EXPECT_FALSE(energy.joules.has_value());
  EXPECT_NE(energy.source.find("NVML"), std::string::npos) << energy.source;
}

}  // namespace
}  // namespace keelson::cuda
