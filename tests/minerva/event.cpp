#include "apps/minerva/detector/event.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "apps/minerva/data/baselines.hpp"

namespace keelson::minerva::testing {
namespace {

bool are_equal(const Event& a, const Event& b) {
  const auto same = [](const Hit& h, const Hit& k) {
    return h.view == k.view && h.column == k.column && h.strip == k.strip && h.energy == k.energy && h.time == k.time;
  };
  return a.planecode == b.planecode && a.z == b.z && std::ranges::equal(a.hits, b.hits, same);
}

TEST(Strips, ShareTheLightOfATrack) {
  EXPECT_EQ(strip_share(0).first, 63);
  EXPECT_NEAR(strip_share(0).share, 1, 1e-12) << "the middle of strip 63";
  EXPECT_EQ(strip_share(strip_pitch / 2).first, 63);
  EXPECT_NEAR(strip_share(strip_pitch / 2).share, 0.5, 1e-12) << "where neighbours overlap by half";
  EXPECT_EQ(strip_share(-1).first, 62);
  EXPECT_NEAR(strip_share(-1).share, 1 / strip_pitch, 1e-12);
  EXPECT_EQ(strip_share(63 * strip_pitch).first, 126) << "the last strip";
  EXPECT_EQ(strip_share(-63 * strip_pitch).first, 0) << "the first one";
}

TEST(Protons, RangeAndEnergyBelongTogether) {
  for (const double energy : {50.0, 130.0, 400.0}) EXPECT_NEAR(proton_energy(proton_range(energy)), energy, 1e-9);
  EXPECT_NEAR(proton_range(100), 7.63, 0.01) << "g/cm^2 of plastic";
  EXPECT_EQ(proton_energy(-1), 0);
}

TEST(Events, AreFunctionsOfSeedSetAndIndex) {
  const Detector detector;
  EventMaker maker(detector), other(detector);
  const Event a = maker.make(1, "train", 7);
  maker.make(1, "train", 8);
  EXPECT_TRUE(are_equal(a, maker.make(1, "train", 7))) << "nothing of the event before is left";
  EXPECT_TRUE(are_equal(a, other.make(1, "train", 7)));
  EXPECT_FALSE(are_equal(a, maker.make(1, "train", 8)));
  EXPECT_FALSE(are_equal(a, maker.make(1, "test", 7)));
  EXPECT_FALSE(are_equal(a, maker.make(2, "train", 7)));
}

class ManyEvents : public ::testing::Test {
 protected:
  static constexpr int count = 3000;
  static void SetUpTestSuite() {
    EventMaker maker(detector_);
    for (int i = 0; i < count; ++i) events_.push_back(maker.make(1, "train", i));
  }
  static void TearDownTestSuite() { events_.clear(); }

  inline static const Detector detector_{true};
  inline static std::vector<Event> events_;
};

TEST_F(ManyEvents, HaveVerticesInTheirElements) {
  for (const Event& e : events_) {
    EXPECT_TRUE(is_in_hexagon(e.x, e.y, fiducial_apothem));
    EXPECT_LE(e.planecode, last_vertex_code);
    if (e.planecode == 0) continue;
    const DetectorLayer& l = detector_.of_code(e.planecode);
    EXPECT_GE(e.z, l.begin);
    EXPECT_LE(e.z, l.begin + detector_.material(l, e.x, e.y).thickness);
    EXPECT_EQ(e.segment, l.segment);
  }
}

/// An element's share of the vertices is its share of the mass.
TEST_F(ManyEvents, AreSpreadByMass) {
  std::map<int, double> found;
  for (const Event& e : events_) found[e.planecode] += 1.0 / count;
  double all = 0, third = 0;
  for (const DetectorLayer& l : detector_.layers())
    if (l.code <= last_vertex_code && l.code != 27) all += detector_.material(l, -100, 50).grams();
  // Half carbon, a third iron, a sixth lead.
  third = 7.6 * 1.74 / 2 + 2.57 * 7.83 / 3 + 2.57 * 11.29 / 6;
  const double whole = all + third;  // within the spread of iron and lead in the targets 1, 2 and 5
  EXPECT_NEAR(found[27], third / whole, 0.25 * third / whole);
  EXPECT_NEAR(found[44], 0.8 * 11.29 / whole, 0.3 * 0.8 * 11.29 / whole);
  EXPECT_NEAR(found[0], 17 / whole, 0.25 * 17 / whole) << "water";
}

TEST_F(ManyEvents, HaveHitsThatADetectorSees) {
  double energy = 0, hits = 0, early = 0, all = 0;
  for (const Event& e : events_) {
    for (const Hit& h : e.hits) {
      EXPECT_GE(h.energy, 0.8) << "the threshold";
      EXPECT_GE(h.strip, 0);
      EXPECT_LT(h.strip, strips);
      EXPECT_GE(h.column, 0);
      EXPECT_LT(h.column, columns_of(ImageSize::full, h.view));
      energy += h.energy / count;
      early += h.time < 0;
      all += 1;
    }
    hits += static_cast<double>(e.hits.size()) / count;
    EXPECT_TRUE(std::ranges::is_sorted(e.hits, {}, [](const Hit& h) { return std::tuple(h.view, h.column, h.strip); }));
  }
  EXPECT_GT(hits, 40);
  EXPECT_LT(hits, 600);
  EXPECT_GT(energy, 150);
  EXPECT_LT(energy, 2500);
  EXPECT_NEAR(early / all, 0.5, 0.1) << "times are relative to the median";
}

/// A muon leaves its 1.95 MeV cm^2/g in each plane.
TEST_F(ManyEvents, MuonsLeaveTheirEnergyInEachPlane) {
  std::vector<double> of_plane;
  for (const Event& e : events_) {
    if (e.planecode == 0 || e.planecode > 60) continue;
    std::map<int, double> planes;
    for (const Hit& h : e.hits)
      if (h.view == View::x && h.column >= 70 && h.column < 90) planes[h.column] += h.energy;
    for (const auto& [column, energy] : planes) of_plane.push_back(energy);
  }
  ASSERT_GT(of_plane.size(), 1000u);
  std::ranges::nth_element(of_plane, of_plane.begin() + std::ssize(of_plane) / 2);
  // 1.7 cm of density 1.05, on inclined paths, and 6 % more by the mean of Gumbel's distribution.
  EXPECT_NEAR(of_plane[of_plane.size() / 2], 1.95 * 1.785 * 1.06, 0.45);
}

TEST_F(ManyEvents, SimpleRulesFindAPartOfThem) {
  int first = 0, passive = 0;
  for (const Event& e : events_) {
    Energies seen;
    for (std::size_t v = 0; v < 3; ++v) {
      const auto columns = columns_of(ImageSize::cropped, static_cast<View>(v));
      seen.views[v].resize(static_cast<std::size_t>(strips * columns));
      draw(e, static_cast<View>(v), columns, 1, seen.views[v]);
    }
    const RuleVertex rule = rule_vertex(detector_, seen);
    if (!rule.first_plane) continue;
    first += rule.first_plane->code == e.planecode;
    passive += rule.passive->code == e.planecode;
  }
  EXPECT_GT(first, 0.15 * count);
  EXPECT_GT(passive, first + 0.1 * count);
  EXPECT_LT(passive, 0.8 * count);
}

TEST_F(ManyEvents, ImagesHaveTheHits) {
  const Event& e = events_[3];
  std::vector<float> image(2 * strips * 94);
  draw(e, View::x, 94, 2, image);
  double drawn = 0, energy = 0;
  for (std::size_t i = 0; i < image.size() / 2; ++i) drawn += double{image[i]};
  for (const Hit& h : e.hits) {
    if (h.view != View::x) continue;
    energy += h.energy;
    const auto at = static_cast<std::size_t>(h.strip) * 94 + static_cast<std::size_t>(h.column);
    EXPECT_NE(image[at], 0);
    EXPECT_FLOAT_EQ(image[at + strips * 94], static_cast<float>(h.time));
  }
  EXPECT_NEAR(drawn, energy, 1e-4 * energy);
}

}  // namespace
}  // namespace keelson::minerva::testing
