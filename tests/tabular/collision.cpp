#include "apps/tabular/collision/collision.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "apps/tabular/collision/four_vector.hpp"

namespace keelson::tabular::testing {
namespace {

TEST(FourVector, ABoostKeepsMassesAndTakesTheFrameToItsMomentum) {
  const FourVector frame{std::hypot(5, std::sqrt(14.0)), 1, 2, 3}, at_rest{5, 0, 0, 0};
  const FourVector moved = boosted(at_rest, frame);
  EXPECT_NEAR(moved.e, frame.e, 1e-12);
  EXPECT_NEAR(moved.x, 1, 1e-12);
  EXPECT_NEAR(moved.z, 3, 1e-12);
  const FourVector other = boosted({7, 3, -2, 1}, frame);
  EXPECT_NEAR(other.mass(), FourVector({7, 3, -2, 1}).mass(), 1e-12);
  // Along one axis: E' = gamma (E + v p), p' = gamma (p + v E) with v = 0.6.
  const FourVector along = boosted({2, 0, 0, 1}, {1.25, 0, 0, 0.75});
  EXPECT_NEAR(along.e, 1.25 * 2 + 0.75 * 1, 1e-12);
  EXPECT_NEAR(along.z, 1.25 * 1 + 0.75 * 2, 1e-12);
  const FourVector light = FourVector::massless(30, 1.2, 0.5);
  EXPECT_NEAR(light.mass(), 0, 1e-5);
  EXPECT_NEAR(light.transverse(), 30, 1e-12);
  EXPECT_NEAR(light.pseudorapidity(), 1.2, 1e-12);
  EXPECT_NEAR(light.azimuth(), 0.5, 1e-12);
}

TEST(Collision, EventsAreFunctionsOfSeedSetAndIndex) {
  const Collision a = make_collision(1, "train", 7), b = make_collision(1, "train", 7);
  EXPECT_EQ(a.features, b.features);
  EXPECT_EQ(a.signal, b.signal);
  EXPECT_NE(a.features, make_collision(1, "train", 8).features);
  EXPECT_NE(a.features, make_collision(1, "test", 7).features);
  EXPECT_NE(a.features, make_collision(2, "train", 7).features);
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

TEST(Collision, WhatIsRecordedIsWhatADetectorSeesAndMassesAreThoseOfTheParticles) {
  const auto& names = collision_feature_names();
  const auto number = [&](const std::string& name) {
    return static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
  };
  EXPECT_EQ(number("m_jj"), low_level_features);
  std::vector<double> masses[2][high_level_features];
  int signal = 0;
  constexpr int events = 4000;
  for (int i = 0; i < events; ++i) {
    const Collision c = make_collision(3, "train", i);
    signal += c.signal ? 1 : 0;
    const auto& f = c.features;
    for (const double v : f) ASSERT_TRUE(std::isfinite(v));
    double tags = 0, last = 1e9;
    for (const std::string jet : {"jet1", "jet2", "jet3", "jet4"}) {
      EXPECT_GT(f[number(jet + "_pT")], 20);
      EXPECT_LE(f[number(jet + "_pT")], last);
      last = f[number(jet + "_pT")];
      EXPECT_LT(std::abs(f[number(jet + "_eta")]), 2.5);
      tags += f[number(jet + "_b_tag")];
    }
    EXPECT_GT(tags, 0);
    EXPECT_GT(f[number("lepton_pT")], 20);
    // The neutrino is solved for the W mass; only where there is no solution the mass is larger.
    EXPECT_GT(f[number("m_lv")], 80.3);
    for (std::size_t m = 0; m < high_level_features; ++m)
      masses[c.signal ? 1 : 0][m].push_back(f[low_level_features + m]);
  }
  EXPECT_NEAR(signal, 2000, 150);
  const auto of = [&](bool is_signal, const std::string& name) {
    return median(masses[is_signal ? 1 : 0][number(name) - low_level_features]);
  };
  EXPECT_NEAR(of(false, "m_jjj"), 173, 20) << "tops";
  EXPECT_NEAR(of(false, "m_jlv"), 173, 20);
  EXPECT_NEAR(of(true, "m_bb"), 125, 25) << "the light Higgs boson";
  EXPECT_NEAR(of(true, "m_wbb"), 325, 25) << "the charged Higgs boson";
  EXPECT_NEAR(of(true, "m_wwbb"), 425, 60) << "the heavy Higgs boson";
}

}  // namespace
}  // namespace keelson::tabular::testing
