#include "engine/train/metrics/intersection_over_union.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/base/error.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::testing {
namespace {

/// Images of 2 x 2 pixels in three classes, evaluated in batches.
struct Images {
  std::vector<std::int32_t> truth;
  std::vector<std::int32_t> predicted;
  MetricSetup setup{.data = "images",
                    .prediction_name = "logits",
                    .prediction = {1, 3, 2, 2},
                    .target = {"labels", {2, 2}, DType::s32}};

  void evaluate(Metric& metric, std::int64_t batch = 1) const {
    metric.reset(setup);
    const auto images = static_cast<std::int64_t>(truth.size()) / 4;
    for (std::int64_t first = 0; first < images; first += batch) {
      const std::int64_t count = std::min(batch, images - first);
      std::vector<float> logits(static_cast<std::size_t>(count * 12), -1);
      std::vector<std::int64_t> indices;
      for (std::int64_t n = 0; n < count; ++n) {
        indices.push_back(first + n);
        for (std::int64_t i = 0; i < 4; ++i)
          logits[static_cast<std::size_t>(n * 12 + predicted[static_cast<std::size_t>((first + n) * 4 + i)] * 4 + i)] =
              0.5;
      }
      metric.update({.count = count,
                     .indices = indices.data(),
                     .predictions = logits.data(),
                     .targets = truth.data() + first * 4});
    }
    metric.reduce(nullptr);
  }
};

/// The example of the published metric's own test.
TEST(IntersectionOverUnion, OneImage) {
  const Images images{{0, 0, 0, 2}, {0, 0, 2, 2}};
  MeanImageIoU per_image;
  images.evaluate(per_image);
  EXPECT_NEAR(per_image.value(), 0.7222222, 1e-7);
  EXPECT_EQ(per_image.values(), (std::vector<double>{2.0 / 3, 1, 0.5})) << "a class that nobody sees counts as 1";
  PooledIoU pooled;
  images.evaluate(pooled);
  EXPECT_DOUBLE_EQ(pooled.value(), (2.0 / 3 + 0.5) / 2) << "a class that nobody sees is left out";
  EXPECT_DOUBLE_EQ(pooled.values()[0], 2.0 / 3);
  EXPECT_TRUE(std::isnan(pooled.values()[1]));
  EXPECT_TRUE(pooled.better(0.5, 0.25));
}

/// The two definitions differ where images differ.
TEST(IntersectionOverUnion, SeveralImages) {
  // First image: IoU 2/3, 1, 1/2. Second: class 1 alone, found in two of four pixels; 0/2, 2/4, 1.
  const Images images{{0, 0, 0, 2, 1, 1, 1, 1}, {0, 0, 2, 2, 1, 1, 0, 0}};
  MeanImageIoU per_image;
  PooledIoU pooled;
  for (const std::int64_t batch : {1, 2}) {
    images.evaluate(per_image, batch);
    images.evaluate(pooled, batch);
    EXPECT_DOUBLE_EQ(per_image.value(), ((2.0 / 3 + 1 + 0.5) / 3 + (0 + 0.5 + 1) / 3) / 2);
    EXPECT_EQ(per_image.values(), (std::vector<double>{1.0 / 3, 0.75, 0.75}));
    EXPECT_EQ(pooled.values(), (std::vector<double>{2.0 / 5, 2.0 / 4, 1.0 / 2}));
    EXPECT_DOUBLE_EQ(pooled.value(), (0.4 + 0.5 + 0.5) / 3);
    EXPECT_EQ(pooled.confusion()(1, 0), 2) << "true class first";
    EXPECT_EQ(pooled.confusion()(0, 2), 1);
    EXPECT_EQ(pooled.confusion().union_of(0), 5);
  }
}

TEST(IntersectionOverUnion, OfEqualLogitsTheFirst) {
  PooledIoU pooled;
  const Images images{{0, 0, 0, 0}, {}};
  pooled.reset(images.setup);
  const std::vector<float> logits(12, 2.0f);
  const std::int64_t index = 0;
  pooled.update({.count = 1, .indices = &index, .predictions = logits.data(), .targets = images.truth.data()});
  EXPECT_EQ(pooled.confusion()(0, 0), 4);
}

TEST(IntersectionOverUnion, Refuses) {
  MeanImageIoU metric({"a", "b"});
  Images images{{0, 0, 0, 3}, {0, 0, 0, 0}};
  const auto refusal = [&] { return message_of<InputError>([&] { images.evaluate(metric); }); };
  EXPECT_EQ(refusal(), "2 classes are named, but the network's logits has 3");
  metric = MeanImageIoU();
  EXPECT_EQ(refusal(), "sample 0 of images has a pixel of class 3. Expected 0 to 2, the classes of the network");
  images.setup.prediction = {1, 3, 2, 1};
  EXPECT_EQ(
      refusal(),
      "the network's logits of a sample is 1x3x2x1, but a sample of images has 4 pixels. Expected a logit for each "
      "class and pixel");
  images.setup.target.dtype = DType::f32;
  EXPECT_EQ(refusal(), "the field labels of images holds f32. Expected s32, the class of each pixel");
}

}  // namespace
}  // namespace keelson::testing
