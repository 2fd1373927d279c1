#include "apps/label/choose/choose.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace keelson::label::testing {
namespace {

TEST(Opinion, OfThreeMembers) {
  const float members[] = {0.9f, 0.1f, 0.2f, 0.8f, 0.6f, 0.4f};
  const Opinion o = opinion_of(members, 2);
  EXPECT_NEAR(o.entropy, 0.6842318, 1e-6);
  EXPECT_NEAR(o.bald, 0.1847327, 1e-6);
  EXPECT_NEAR(o.margin, 1 - 0.4 / 3, 1e-6);
  EXPECT_NEAR(o.std, 0.2867442, 1e-6);
  EXPECT_EQ(o.best(), 0);
  const float alike[] = {0.3f, 0.7f, 0.3f, 0.7f};
  EXPECT_NEAR(opinion_of(alike, 2).bald, 0, 1e-12);
  EXPECT_EQ(opinion_of(alike, 2).std, 0);
  const float three[] = {0.5f, 0.3f, 0.2f};
  EXPECT_NEAR(opinion_of(three, 3).margin, 0.8, 1e-6);
}

TEST(ClopperPearson, Bounds) {
  EXPECT_NEAR(least_accuracy(100, 100), 0.9705, 5e-5);
  EXPECT_NEAR(least_accuracy(9, 10), 0.60584, 1e-5);
  EXPECT_NEAR(most_accuracy(9, 10), 1 - (1 - std::pow(0.95, 0.1)), 1e-6);
  EXPECT_EQ(least_accuracy(0, 10), 0);
  EXPECT_EQ(most_accuracy(10, 10), 1);
  EXPECT_EQ(least_accuracy(0, 0), 0);
  EXPECT_EQ(most_accuracy(0, 0), 1);
  EXPECT_NEAR(least_accuracy(2900, 3000), 0.96075, 2e-4);
}

TEST(SupportedConfidence, IsWhereEnoughPredictionsAreRight) {
  std::vector<JudgedPrediction> predictions;
  for (int i = 0; i < 200; ++i) predictions.push_back({1 - i / 400.0, i < 150 || i % 2 == 0});
  // 150 right ones, then every second.
  const auto at = supported_confidence(predictions, 0.95);
  ASSERT_TRUE(at.has_value());
  std::int64_t right = 0, count = 0;
  for (const auto& p : predictions)
    if (p.p >= *at) ++count, right += p.right ? 1 : 0;
  EXPECT_GE(least_accuracy(right, count), 0.95);
  EXPECT_GT(count, 150);
  EXPECT_LT(least_accuracy(right, count + 2), 0.95);

  std::ranges::reverse(predictions);
  EXPECT_EQ(supported_confidence(predictions, 0.95), at) << "in any order";
  EXPECT_EQ(supported_confidence({{0.9, true}, {0.8, true}}, 0.95), std::nullopt) << "too few";
  EXPECT_EQ(supported_confidence({}, 0.95), std::nullopt);
  // Equal probabilities stand or fall together.
  std::vector<JudgedPrediction> equal(100, {0.7, true});
  equal.resize(200, {0.7, false});
  EXPECT_EQ(supported_confidence(equal, 0.95), std::nullopt);
}

TEST(KCentre, TakesTheFarthestOfTheNearest) {
  const float x[] = {0, 1, 2, 10, 11, 5};
  EXPECT_EQ(k_centre(x, 1, {1, 2, 3, 4, 5}, {0}, 3), (std::vector<std::int64_t>{4, 5, 2}));
  EXPECT_EQ(k_centre(x, 1, {3, 4}, {}, 5), (std::vector<std::int64_t>{3, 4})) << "no more than there are";
}

std::vector<Opinion> opinions_by_margin(std::int64_t n) {
  std::vector<Opinion> all(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].p = {0.5, 0.5};
    all[i].margin = all[i].bald = 1 - static_cast<double>(i) / static_cast<double>(n);
  }
  return all;
}

TEST(Batch, HasTheMostUncertainThatDifferAndSomeAtRandom) {
  constexpr std::int64_t n = 1000;
  std::vector<float> points(n);
  for (std::size_t i = 0; i < points.size(); ++i) points[i] = static_cast<float>(i % 40);
  std::vector<std::int64_t> left(n - 1);
  std::iota(left.begin(), left.end(), 1);
  const auto opinions = opinions_by_margin(n);
  BatchOptions o{.count = 50, .seed = 3};
  const Batch b = choose_batch(o, opinions, points, 1, left, {0});
  EXPECT_EQ(b.images.size(), 45u);
  EXPECT_EQ(b.audit.size(), 5u);
  std::set<std::int64_t> all(b.images.begin(), b.images.end());
  all.insert(b.audit.begin(), b.audit.end());
  EXPECT_EQ(all.size(), 50u) << "no image twice";
  EXPECT_FALSE(all.contains(0));
  for (const std::int64_t i : b.images) EXPECT_LE(i, 206);  // four times 50, and those of the audit
  std::set<float> places;
  for (const std::int64_t i : b.images) places.insert(points[static_cast<std::size_t>(i)]);
  EXPECT_GE(places.size(), 35u) << "of 40: they differ";
  EXPECT_EQ(choose_batch(o, opinions, points, 1, left, {0}).images, b.images);
  o.round = 1;
  EXPECT_NE(choose_batch(o, opinions, points, 1, left, {0}).audit, b.audit);

  o.spread = false;
  o.audit = 0;
  const Batch plain = choose_batch(o, opinions, points, 1, left, {0});
  for (std::int64_t i = 0; i < 50; ++i) EXPECT_EQ(plain.images[static_cast<std::size_t>(i)], i + 1);
  o.by = "random";
  EXPECT_EQ(choose_batch(o, opinions, points, 1, left, {0}).audit.size(), 50u);
  EXPECT_EQ(choose_batch(o, opinions, points, 1, {4, 5}, {0}).audit.size(), 2u);
}

/// Only then the audit tells how good the networks are on all that is left.
TEST(Batch, AuditIsUniform) {
  constexpr std::int64_t n = 200, rounds = 400;
  const std::vector<float> points(n);
  std::vector<std::int64_t> left(n);
  std::iota(left.begin(), left.end(), 0);
  const auto opinions = opinions_by_margin(n);
  double sum = 0, count = 0;
  std::vector<int> drawn(n);
  for (std::int64_t round = 0; round < rounds; ++round) {
    const Batch b =
        choose_batch({.count = 50, .spread = false, .seed = 1, .round = round}, opinions, points, 1, left, {});
    for (const std::int64_t i : b.audit) {
      sum += static_cast<double>(i);
      count += 1;
      ++drawn[static_cast<std::size_t>(i)];
    }
  }
  ASSERT_EQ(count, 5 * rounds);
  EXPECT_NEAR(sum / count, 99.5, 4 * 57.7 / std::sqrt(count));
  EXPECT_LT(*std::ranges::max_element(drawn), 26);  // 10 are expected
}

TEST(FirstImages, AreSpreadAlongTheFirstPrincipalComponent) {
  constexpr std::int64_t n = 500;
  std::vector<float> points;
  for (std::int64_t i = 0; i < n; ++i) {
    points.push_back(static_cast<float>((i * 37) % n));
    points.push_back(static_cast<float>(i % 3));
  }
  const auto first = first_images(points, 2, 10, 1);
  std::set<std::int64_t> parts;
  for (const std::int64_t i : first) parts.insert((i * 37) % n / 50);
  EXPECT_EQ(parts.size(), 10u);
  EXPECT_NE(first_images(points, 2, 10, 2), first);
}

TEST(Stop, SaysWhy) {
  const StopRule rule;
  EXPECT_FALSE(reason_to_stop({.left = 10, .audit_right = 98, .audit = 98}, rule));
  EXPECT_TRUE(reason_to_stop({.left = 10, .audit_right = 100, .audit = 100}, rule));
  EXPECT_FALSE(reason_to_stop({.left = 10, .changes = {0.001, 0.02, 0.004, 0.004}}, rule));
  EXPECT_TRUE(reason_to_stop({.left = 10, .changes = {0.02, 0.001, 0.004, 0.004}}, rule));
  EXPECT_TRUE(reason_to_stop({.left = 0}, rule));
  EXPECT_NE(describe({.left = 1, .audit_right = 9, .audit = 10}, rule).find("60.6 %"), std::string::npos);
}

TEST(ConfidentLearning, OfAMatrixByHand) {
  const double p[] = {0.9, 0.1, 0.8, 0.2, 0.2, 0.8, 0.1, 0.9, 0.2, 0.8, 0.9, 0.1, 0.5, 0.5};
  const std::int64_t labels[] = {0, 0, 0, 1, 1, 1, 0};
  const ConfidentJoint j = confident_joint(p, labels, 2);
  EXPECT_NEAR(j.thresholds[0], 0.6, 1e-12);
  EXPECT_NEAR(j.thresholds[1], 0.6, 1e-12);
  EXPECT_EQ(j.counts, (std::vector<std::int64_t>{2, 1, 1, 2})) << "the last sample is like no class";
  EXPECT_EQ(j.wrong, (std::vector<std::int64_t>{5, 2})) << "the least probable label first";
  const float members[] = {0.9f, 0.1f, 0.5f, 0.5f};
  EXPECT_NEAR(el2n(members, 2, 0), (0.1 * std::sqrt(2.0) + 0.5 * std::sqrt(2.0)) / 2, 1e-6);
}

}  // namespace
}  // namespace keelson::label::testing
