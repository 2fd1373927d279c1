#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backends/kokkos/loss/loss_lanes.hpp"
#include "tests/oracle/ops.hpp"

/// The kernel in which several work items share a row, as a GPU has it, item by item.
namespace keelson::testing {
namespace {

TEST(GaussianLane, LanesAddUpToTheRow) {
  constexpr std::int64_t samples = 3, targets = 7, lanes = 4;
  const oracle::Array x = oracle::random_uniform({samples, 2 * targets}, "x", -2, 2),
                      y = oracle::random_uniform({samples, targets}, "y", -2, 2), weight({samples}, {2, 0, 1});
  const std::vector<float> prediction(x.data.begin(), x.data.end()), target(y.data.begin(), y.data.end()),
      weights(weight.data.begin(), weight.data.end());
  const ops::StepParams now{.inverse_samples = 0.25f};
  const ops::LossScale scale{.scale = 8};
  const ops::LossParams params{ops::LossKind::gaussian_nll};
  const oracle::Array want = oracle::loss_backward(x, y, weight, params, now, 1, scale);
  for (const bool in_place : {false, true}) {
    std::vector<float> given = prediction, separate(given.size(), 9);
    std::vector<float>& diff = in_place ? given : separate;
    const kokkos::LossRows rows{params,         &now,    &scale,      given.data(), target.data(), nullptr,
                                weights.data(), nullptr, diff.data(), samples,      2 * targets,   1,
                                false,          nullptr, {}};
    std::vector<double> parts(samples * lanes);
    const kokkos::GaussianLane lane{rows, lanes, parts.data()};
    for (std::int64_t item = 0; item < samples * lanes; ++item) lane(static_cast<kokkos::Index>(item));
    double loss = 0;
    for (const double part : parts) loss += part;
    EXPECT_NEAR(loss, oracle::loss_forward(x, y, weight, params, now, 1), 1e-6);
    for (std::size_t i = 0; i < diff.size(); ++i)
      EXPECT_NEAR(diff[i], want[static_cast<std::int64_t>(i)],
                  1e-6 * (1 + std::abs(want[static_cast<std::int64_t>(i)])))
          << i;
  }
}

}  // namespace
}  // namespace keelson::testing
