#include "engine/train/metrics/accuracy.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "engine/base/error.hpp"

namespace keelson::testing {
namespace {

/// Five samples in three classes: predicted 0, 2, 1, 1, 0 (of equal logits the first); true 0, 2, 1, 0, 0.
struct Classified {
  std::array<float, 15> logits{3, 1, 2, -1, 0, 1, 0, 5, 0, 0, 2, 1, 4, 4, 4};
  std::array<std::int32_t, 5> truth{0, 2, 1, 0, 0};
  std::array<std::int64_t, 5> indices{0, 1, 2, 3, 4};
  MetricSetup setup{
      .data = "samples", .prediction_name = "logits", .prediction = {1, 3}, .target = {"class", {}, DType::s32}};

  void evaluate(Metric& metric, std::int64_t batch) const {
    metric.reset(setup);
    for (std::int64_t first = 0; first < 5; first += batch)
      metric.update({.count = std::min<std::int64_t>(batch, 5 - first),
                     .indices = &indices[static_cast<std::size_t>(first)],
                     .predictions = &logits[static_cast<std::size_t>(first) * 3],
                     .targets = &truth[static_cast<std::size_t>(first)]});
    metric.reduce(nullptr);
  }
};

TEST(Accuracy, CountsSamplesWhoseClassIsFound) {
  const Classified samples;
  Accuracy accuracy({"a", "b", "c"});
  for (const std::int64_t batch : {1, 2, 5}) {
    samples.evaluate(accuracy, batch);
    EXPECT_DOUBLE_EQ(accuracy.value(), 4.0 / 5);
    EXPECT_EQ(accuracy.values(), (std::vector<double>{2.0 / 3, 1, 1}));
  }
  EXPECT_TRUE(accuracy.better(0.5, 0.25));
  EXPECT_EQ(accuracy.value_names(), (std::vector<std::string>{"a", "b", "c"}));
}

TEST(Accuracy, AClassWithoutSamplesHasNone) {
  Classified samples;
  samples.truth = {0, 0, 1, 0, 0};
  Accuracy accuracy;
  samples.evaluate(accuracy, 5);
  EXPECT_TRUE(std::isnan(accuracy.values()[2]));
  EXPECT_DOUBLE_EQ(accuracy.value(), 3.0 / 5);
}

TEST(Accuracy, RefusesAClassThatTheNetworkDoesNotHave) {
  Classified samples;
  samples.truth[1] = 3;
  Accuracy accuracy;
  EXPECT_THROW(samples.evaluate(accuracy, 5), InputError);
  samples.setup.target.dtype = DType::f32;
  EXPECT_THROW(accuracy.reset(samples.setup), InputError);
}

}  // namespace
}  // namespace keelson::testing
