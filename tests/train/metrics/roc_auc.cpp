#include "engine/train/metrics/roc_auc.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/base/error.hpp"

namespace keelson::testing {
namespace {

TEST(RocAuc, IsTheShareOfPairsInTheRightOrder) {
  // Pairs of a positive and a negative: 0.9 and 0.35 against 0.5, 0.35, 0.1: 3 + (0 + 0.5 + 1) of 6.
  const std::vector<float> scores{0.9f, 0.5f, 0.35f, 0.35f, 0.1f};
  const std::vector<std::uint8_t> labels{1, 0, 1, 0, 0};
  EXPECT_DOUBLE_EQ(roc_auc(scores, labels), 4.5 / 6);
  EXPECT_DOUBLE_EQ(roc_auc(std::vector<float>{1, 1, 1}, std::vector<std::uint8_t>{1, 0, 0}), 0.5);
  EXPECT_DOUBLE_EQ(roc_auc(std::vector<float>{3, 2, 1}, std::vector<std::uint8_t>{1, 1, 0}), 1);
  EXPECT_DOUBLE_EQ(roc_auc(std::vector<float>{1, 2, 3}, std::vector<std::uint8_t>{1, 1, 0}), 0);
  EXPECT_TRUE(std::isnan(roc_auc(std::vector<float>{1, 2}, std::vector<std::uint8_t>{1, 1})));
}

TEST(RocAuc, TheCurveEnclosesTheArea) {
  std::vector<float> scores;
  std::vector<std::uint8_t> labels;
  for (int i = 0; i < 1000; ++i) {
    labels.push_back(i % 3 == 0 ? 1 : 0);
    scores.push_back(std::sin(static_cast<float>(i * i)) + static_cast<float>(labels.back()));
  }
  const auto curve = roc_curve(scores, labels, 1000);
  double area = 0;
  for (std::size_t i = 1; i < curve.size(); ++i)
    area += (curve[i].first - curve[i - 1].first) * (curve[i].second + curve[i - 1].second) / 2;
  EXPECT_NEAR(area, roc_auc(scores, labels), 1e-9);
  EXPECT_EQ(curve.front(), (std::pair{0.0, 0.0}));
  EXPECT_EQ(curve.back(), (std::pair{1.0, 1.0}));
  EXPECT_LE(roc_curve(scores, labels, 10).size(), 12u);
}

MetricSetup setup_of(std::int64_t samples, std::int64_t classes) {
  return {.data = "rows",
          .samples = samples,
          .units = 1,
          .prediction_name = "prediction",
          .prediction = {1, classes},
          .target = {"y", {}, DType::s32}};
}

TEST(RocAuc, OfLogitsInBatches) {
  RocAuc two;
  two.reset(setup_of(4, 2));
  const std::vector<float> logits{0, 2, 0, 1, 5, 6.5f, 1, 0};  // differences 2, 1, 1.5, -1
  const std::vector<std::int32_t> truth{1, 0, 1, 0};
  const std::vector<std::int64_t> indices{2, 0, 3, 1};
  two.update({3, indices.data(), 0, logits.data(), truth.data()});
  two.update({1, indices.data() + 3, 0, logits.data() + 6, truth.data() + 3});
  two.reduce(nullptr);
  EXPECT_EQ(two.value(), 1);
  EXPECT_EQ(two.values().size(), 1u);

  RocAuc three({"a", "b", "c"});
  three.reset(setup_of(3, 3));
  const std::vector<float> of_three{9, 0, 0, 0, 9, 0, 9, 8, 0};
  const std::vector<std::int32_t> classes{0, 1, 1};
  const std::vector<std::int64_t> in_turn{0, 1, 2};
  three.update({3, in_turn.data(), 0, of_three.data(), classes.data()});
  three.reduce(nullptr);
  EXPECT_EQ(three.values()[0], 1) << "0 against 1, 2: its odds are the largest";
  EXPECT_EQ(three.values()[1], 1);
  EXPECT_TRUE(std::isnan(three.values()[2])) << "a class without samples";
  EXPECT_EQ(three.value(), 1) << "the mean over classes that occur";
  EXPECT_EQ(three.value_names().size(), 3u);
  EXPECT_THROW(RocAuc().reset(setup_of(3, 1)), InputError);
}

}  // namespace
}  // namespace keelson::testing
