#include "apps/minerva/data/event_dataset.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "apps/minerva/data/baselines.hpp"
#include "apps/minerva/data/event_files.hpp"
#include "apps/minerva/vertex_metric.hpp"
#include "engine/base/error.hpp"
#include "engine/data/hdf5/hdf5.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::minerva::testing {
namespace {

using keelson::testing::message_of;
using keelson::testing::TemporaryFolder;

class EventFiles : public ::testing::Test {
 protected:
  /// A file of three events whose arrays have these extents.
  struct Extents {
    std::int64_t events = 3, labels = 3, channels = 2, strips = minerva::strips, planes = 50, u_planes = 25;
    std::uint16_t planecode = 70;
    std::uint8_t segment = 4;
  };
  std::string write(const Extents& e) const {
    const std::string path = folder_ / "events.h5";
    auto file = hdf5::File::create(path);
    for (const auto& [name, planes] : {std::pair{"img_data/hitimes-x", e.planes},
                                       {"img_data/hitimes-u", e.u_planes},
                                       {"img_data/hitimes-v", std::int64_t{25}}}) {
      std::vector<float> image(static_cast<std::size_t>(e.events * e.channels * e.strips * planes));
      std::iota(image.begin(), image.end(), -100.0f);
      file.write(name, image.data(), {e.events, e.channels, e.strips, planes});
    }
    const std::vector<std::uint16_t> planecodes(static_cast<std::size_t>(e.labels), e.planecode);
    const std::vector<std::uint8_t> segments(static_cast<std::size_t>(e.labels), e.segment);
    std::vector<float> zs(static_cast<std::size_t>(e.labels));
    std::iota(zs.begin(), zs.end(), 5000.0f);
    file.write("vtx_data/planecodes", planecodes.data(), {e.labels});
    file.write("vtx_data/segments", segments.data(), {e.labels});
    file.write("vtx_data/zs", zs.data(), {e.labels});
    file.close();
    return path;
  }
  std::string refusal(const Extents& e, const EventOptions& options = {}) const {
    const std::string path = write(e);
    return message_of<InputError>([&] {
      const EventDataset data(path, options, nullptr);
      Sample sample(data);
      sample.read(data, 0);
    });
  }
  struct Sample {
    explicit Sample(const EventDataset& data) {
      for (std::size_t f = 0; f < 3; ++f) views[f].resize(static_cast<std::size_t>(data.fields()[f].shape.elements()));
    }
    void read(const EventDataset& data, std::int64_t i) {
      void* const dst[] = {views[0].data(), views[1].data(), views[2].data(), &truth};
      data.read(i, dst);
    }
    std::array<std::vector<float>, 3> views;
    std::int32_t truth = -1;
  };

  TemporaryFolder folder_;
};

TEST_F(EventFiles, AreReadAsANetworkTakesThem) {
  const std::string path = write({});
  const EventDataset energies(path, {.normalise = "none"}, nullptr);
  ASSERT_EQ(energies.fields().size(), 4u);
  EXPECT_EQ(to_string(energies.fields()[0].shape), "1x127x50");
  EXPECT_EQ(to_string(energies.fields()[2].shape), "1x127x25");
  EXPECT_EQ(energies.fields()[2].name, "v");
  Sample s(energies);
  s.read(energies, 1);
  EXPECT_EQ(s.truth, 66) << "planecode 70 is in the last class";
  EXPECT_EQ(s.views[0][3], -100.0f + 2 * 127 * 50 + 3);
  const EventDataset both(path, {.target = "segment", .time = true}, nullptr);
  EXPECT_EQ(both.classes(), 11);
  Sample t(both);
  t.read(both, 0);
  EXPECT_EQ(t.truth, 4);
  EXPECT_FLOAT_EQ(t.views[0][0], -std::log1p(100.0f)) << "energy of the first cell";
  EXPECT_FLOAT_EQ(t.views[0][1], std::log1p(127.0f * 50 - 100)) << "its time";
  EXPECT_NE(energies.digest(), both.digest());
  const Vertices v = both.vertices();
  EXPECT_EQ(v.planecodes, (std::vector<std::int32_t>{70, 70, 70}));
  EXPECT_EQ(v.z, (std::vector<float>{5000, 5001, 5002}));
}

TEST_F(EventFiles, OfOtherSizesAreRefused) {
  const auto expect = [&](const Extents& e, const std::string& part, const EventOptions& options = {}) {
    const std::string text = refusal(e, options);
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  };
  expect({.strips = 128},
         "'img_data/hitimes-x' has images of 2x128x50 (channels, strips, planes). Expected 127 strips");
  expect({.u_planes = 26},
         "'img_data/hitimes-u' has images of 2x127x26 (channels, strips, planes). Expected 25 planes");
  expect({.planes = 49}, "an even number of planes");
  expect({.channels = 3}, "1 or 2 channels");
  expect({.channels = 1}, "have no times", {.time = true});
  expect({.labels = 4},
         "'img_data/hitimes-x' has 3 samples, and 'vtx_data/planecodes' has 4. Expected the same number");
  expect({.planecode = 300}, "event 0 has the planecode 300. Expected 0 to 214");
  expect({.segment = 11}, "event 0 has the segment 11. Expected 0 to 10", {.target = "segment"});
}

TEST_F(EventFiles, SimulatedOnesAreTheEvents) {
  const std::string path = folder_ / "made.h5";
  write_events(path, {.channels = 1, .seed = 5}, "test", 10, 14);
  const EventDataset data(path, {.normalise = "none"}, nullptr);
  EXPECT_EQ(data.size(), 4);
  const Detector detector;
  EventMaker maker(detector);
  const Event event = maker.make(5, "test", 12);
  std::vector<float> image(static_cast<std::size_t>(strips * 25));
  draw(event, View::u, 25, 1, image);
  const Energies seen = data.energies(2);
  EXPECT_EQ(seen.views[1], image);
  EXPECT_EQ(seen.truth, std::min(event.planecode, 66));
  EXPECT_EQ(data.vertices().z[2], static_cast<float>(event.z));
  write_events(folder_ / "full.h5", {.size = ImageSize::full, .seed = 5}, "test", 10, 11);
  const EventDataset full(folder_ / "full.h5", {.classes = 173, .time = true}, nullptr);
  EXPECT_EQ(to_string(full.fields()[0].shape), "2x127x94");
}

TEST_F(EventFiles, ResidualsAreThoseOfTheClassesMeans) {
  const std::string path = write({.planecode = 20});
  const EventDataset data(path, {}, nullptr);
  const auto places = std::make_shared<const VertexPlaces>(data);
  EXPECT_EQ(places->residual(0, 20), 1);  // the mean of 5000, 5001 and 5002
  EXPECT_EQ(places->residual(2, 20), -1);
  EXPECT_TRUE(std::isnan(places->residual(0, 21))) << "no event has this class";
  EXPECT_TRUE(std::isnan(places->residual(0, 66))) << "the last class has no place";
  VertexMetric metric(places);
  metric.reset({.samples = 3, .prediction = {67}});
  std::vector<float> logits(3 * 67);
  for (std::size_t i = 0; i < 3; ++i) logits[i * 67 + (i == 1 ? 66 : 20)] = 1;
  const std::int64_t indices[] = {0, 1, 2};
  metric.update({.count = 3, .indices = indices, .predictions = logits.data()});
  metric.reduce(nullptr);
  EXPECT_EQ(metric.events(), 2);
  EXPECT_EQ(metric.rms(), 1);
  EXPECT_EQ(metric.mean(), 0);
  EXPECT_EQ(metric.within_plane(), 1);
  EXPECT_EQ(metric.histogram()[VertexMetric::bins / 2], 2);
  EXPECT_EQ(metric.predicted(), (std::vector<std::int64_t>{20, 66, 20}));
}

TEST(Rules, KnowWhatStandsUpstream) {
  const Detector detector;
  Energies event;
  for (std::size_t v = 0; v < 3; ++v) event.views[v].assign(static_cast<std::size_t>(strips) * (v == 0 ? 50 : 25), 0);
  EXPECT_EQ(rule_vertex(detector, event).first_plane, nullptr);
  const auto hit = [&](int code) {
    const DetectorLayer& l = detector.of_code(code);
    auto& view = event.views[static_cast<std::size_t>(l.view)];
    view[static_cast<std::size_t>(l.view == View::x ? 40 * 50 : 40 * 25) + static_cast<std::size_t>(l.column)] = 2;
  };
  hit(40);
  EXPECT_EQ(rule_vertex(detector, event).passive->code, 40);
  hit(28);
  EXPECT_EQ(rule_vertex(detector, event).first_plane->code, 28);
  EXPECT_EQ(rule_vertex(detector, event).passive->code, 27) << "target 3";
  hit(11);
  EXPECT_EQ(rule_vertex(detector, event).passive->code, 11) << "target 1 is two planes upstream";
  hit(1);
  EXPECT_EQ(rule_vertex(detector, event).passive->code, 1) << "nothing is upstream";
}

}  // namespace
}  // namespace keelson::minerva::testing
