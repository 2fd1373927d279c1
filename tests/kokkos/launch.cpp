#include <gtest/gtest.h>

#include <string>

#include "backends/kokkos/common/kernel.hpp"
#include "engine/base/error.hpp"
#include "tests/support/contexts.hpp"

namespace keelson::testing {
namespace {

/// A device that refuses every kernel.
class Refusing : public kokkos::Instance {
 public:
  using Instance::Instance;
  void check_launch(const char* label) const override { fail("refused: {}", label); }
};

struct Nothing {
  KOKKOS_FUNCTION void operator()(kokkos::Index) const {}
};

TEST(Launch, ReportsAKernelThatTheDeviceRefused) {
  context("kokkos");  // skips where there is no device
  kokkos::launch("accepted", 1, Nothing{});
  const auto refusing = std::make_shared<Refusing>(kokkos::space());
  const InstanceScope scope(*refusing);
  try {
    kokkos::launch("a kernel", 1, Nothing{});
    FAIL() << "nobody looked at the launch";
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()), "refused: a kernel");
  }
}

}  // namespace
}  // namespace keelson::testing
