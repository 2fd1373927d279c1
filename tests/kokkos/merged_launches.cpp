#include "backends/kokkos/common/merged_launches.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "backends/kokkos/common/run_merged.hpp"
#include "tests/support/contexts.hpp"

namespace keelson::testing {
namespace {

using kokkos::Index;

struct AddOne {
  float* x;
  KOKKOS_FUNCTION void operator()(Index i) const { x[i] += 1; }
};
struct Double {
  float* x;
  KOKKOS_FUNCTION void operator()(Index i) const { x[i] *= 2; }
};

/// Pieces of 0, 1, 2, ... elements: (x + 1) 2 + 1. The last kernel has the type of the first one.
TEST(MergedLaunches, KeepTheOrderWithinAPiece) {
  Device& device = context("kokkos").device();
  constexpr std::size_t pieces = 2 * kokkos::Merged<AddOne>::capacity + 3, elements = pieces * (pieces - 1) / 2;
  const auto memory = device.allocate(elements * sizeof(float), "pieces");
  for (int again = 1; again <= 2; ++again) {
    device.zero(memory.get(), elements * sizeof(float));
    kokkos::run_merged(pieces, [&](std::size_t i) {
      float* x = static_cast<float*>(memory.get()) + i * (i - 1) / 2 * (i > 0);
      kokkos::launch_merging("first", static_cast<Index>(i), AddOne{x});
      kokkos::launch_merging("second", static_cast<Index>(i), Double{x});
      kokkos::launch_merging("third", static_cast<Index>(i), AddOne{x});
    });
    std::vector<float> values(elements);
    device.copy_to_host(values.data(), memory.get(), elements * sizeof(float));
    EXPECT_EQ(values, std::vector<float>(elements, 3.0f)) << again;
  }
}

/// What a piece has collected before an exception is not launched, now or later.
TEST(MergedLaunches, ForgetThePiecesOfAFailure) {
  Device& device = context("kokkos").device();
  const auto memory = device.allocate(sizeof(float), "piece");
  auto* x = static_cast<float*>(memory.get());
  const auto fails = [&](std::size_t) {
    if constexpr (!kokkos::runs_on_host) kokkos::launch_merging("lost", 1, AddOne{x});
    throw std::runtime_error("no more");
  };
  EXPECT_THROW(kokkos::run_merged(1, fails), std::runtime_error);
  kokkos::run_merged(1, [&](std::size_t) { kokkos::launch_merging("kept", 1, AddOne{x}); });
  float value = 0;
  device.copy_to_host(&value, x, sizeof value);
  EXPECT_EQ(value, 1);
}

}  // namespace
}  // namespace keelson::testing
