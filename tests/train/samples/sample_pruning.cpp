#include "engine/train/samples/sample_pruning.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/error.hpp"
#include "engine/base/philox.hpp"
#include "engine/data/epoch_order.hpp"
#include "tests/support/data_files.hpp"

/// Which samples the rules choose, by losses that the tests make.
namespace keelson::testing {
namespace {

constexpr std::int64_t samples = 1000, epochs = 100;

/// Exponentially distributed with mean 1.
std::vector<float> exponential_losses(std::int64_t count = samples) {
  std::vector<float> losses;
  for (std::int64_t i = 0; i < count; ++i)
    losses.push_back(-std::log(1 - philox::uniform({3, 1, 0}, static_cast<std::uint64_t>(i))));
  return losses;
}

std::vector<std::int64_t> all_samples(std::int64_t count) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  return all;
}

/// The rule after an epoch that has visited all samples and found these losses.
struct Pruned {
  Pruned(const PruneOptions& options, const std::vector<float>& losses, bool probabilities = false,
         std::uint64_t seed = 7)
      : pruning(options, std::ssize(losses), seed, epochs, true, probabilities) {
    visit(0, losses);
  }
  /// An epoch in which the samples that are kept have these losses.
  void visit(std::int64_t epoch, const std::vector<float>& losses) {
    pruning.begin_epoch(epoch);
    std::vector<float> own;
    for (const std::int64_t i : pruning.samples()->order) own.push_back(losses[static_cast<std::size_t>(i)]);
    pruning.record(pruning.samples()->order, own, true);
    pruning.absorb(pruning.gather(nullptr));
    pruning.end_epoch();
  }
  std::vector<std::int64_t> left_out(std::int64_t epoch) {
    pruning.begin_epoch(epoch);
    return pruning.left_out();
  }
  SamplePruning pruning;
};

TEST(SamplePruning, RatiosAreBelowOneAndRulesHaveNames) {
  EXPECT_THROW(SamplePruning({PruneRule::random, 1.0}, 10, 1, 10, true, false), InputError);
  for (const std::string& name : prune_rule_names()) EXPECT_EQ(to_string(parse_prune_rule(name)), name);
  EXPECT_NE(message_of<InputError>([] { parse_prune_rule("infobach"); }).find("none, infobatch, random"),
            std::string::npos);
  EXPECT_EQ((PruneOptions{PruneRule::infobatch}.to_string()), "infobatch 0.5");
  EXPECT_EQ((PruneOptions{PruneRule::kakurenbo, 0.25}.to_string()), "kakurenbo 0.25");
}

/// Section "InfoBatch": half of the samples below the mean, which are 1 - 1/e = 63 % of exponential losses.
TEST(SamplePruning, InfobatchKeeps68PercentOfExponentialLosses) {
  Pruned p({PruneRule::infobatch}, exponential_losses());
  double kept = 0;
  for (std::int64_t epoch = 1; epoch <= 50; ++epoch)
    kept += static_cast<double>(samples - std::ssize(p.left_out(epoch)));
  EXPECT_NEAR(kept / 50 / samples, 0.68, 0.02);
}

TEST(SamplePruning, InfobatchKeepsAllAboveTheMeanAndWeighsTheOthers) {
  const auto losses = exponential_losses();
  const double mean = std::accumulate(losses.begin(), losses.end(), 0.0) / samples;
  Pruned p({PruneRule::infobatch, 0.75}, losses);
  p.pruning.begin_epoch(1);
  const EpochSamples& s = *p.pruning.samples();
  EXPECT_EQ(s.represented, samples);
  EXPECT_EQ(s.size() + std::ssize(p.pruning.left_out()), samples);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (static_cast<double>(losses[i]) >= mean)
      EXPECT_EQ(s.weights[i], 1) << i;
    else
      EXPECT_TRUE(s.weights[i] == 0 || s.weights[i] == 4) << i;
  }
}

/// The mean over 20,000 draws of sum w g is sum g, for gradients that go with the losses, against them, or not at all.
/// Without the weights the sums are off by as much as the low losses' share.
TEST(SamplePruning, InfobatchIsUnbiased) {
  const auto losses = exponential_losses();
  constexpr int draws = 20'000, kinds = 3;
  std::vector<double> gradients[kinds];
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const auto loss = static_cast<double>(losses[i]);
    gradients[0].push_back(loss);
    gradients[1].push_back(1 / (0.1 + loss));
    gradients[2].push_back(static_cast<double>(philox::uniform({5, 5, 5}, i)) + 0.5);
  }
  Pruned p({PruneRule::infobatch}, losses);
  double want[kinds] = {}, sum[kinds] = {}, squares[kinds] = {}, plain[kinds] = {};
  for (int k = 0; k < kinds; ++k) want[k] = std::accumulate(gradients[k].begin(), gradients[k].end(), 0.0);
  // The losses stay; a new seed for each draw, as epochs have.
  const auto arrays = p.pruning.state(false);
  for (int draw = 0; draw < draws; ++draw) {
    SamplePruning one({PruneRule::infobatch}, samples, static_cast<std::uint64_t>(draw), epochs, false, false);
    one.restore(arrays, false, 1, "");
    one.begin_epoch(1);
    const EpochSamples& s = *one.samples();
    for (int k = 0; k < kinds; ++k) {
      double total = 0, unweighted = 0;
      for (const std::int64_t sample : s.order) {
        const auto i = static_cast<std::size_t>(sample);
        total += static_cast<double>(s.weights[i]) * gradients[k][i];
        unweighted += gradients[k][i];
      }
      sum[k] += total;
      squares[k] += total * total;
      plain[k] += unweighted * samples / static_cast<double>(s.size());
    }
  }
  for (int k = 0; k < kinds; ++k) {
    const double mean = sum[k] / draws, error = std::sqrt((squares[k] / draws - mean * mean) / draws);
    EXPECT_NEAR(mean, want[k], 4 * error) << k;
    if (k < 2) {
      EXPECT_GT(std::abs(plain[k] / draws / want[k] - 1), 0.15) << k;
    }
  }
}

TEST(SamplePruning, TheFirstEpochAndTheLastEighthHaveAllSamples) {
  for (const PruneRule rule :
       {PruneRule::infobatch, PruneRule::random, PruneRule::kakurenbo, PruneRule::forgetting, PruneRule::el2n}) {
    Pruned p({rule, 0.5}, exponential_losses());
    EXPECT_TRUE(p.left_out(0).empty()) << to_string(rule);
    EXPECT_FALSE(p.left_out(86).empty()) << to_string(rule);
    EXPECT_TRUE(p.left_out(87).empty()) << to_string(rule);
    EXPECT_TRUE(p.left_out(99).empty()) << to_string(rule);
    EXPECT_EQ(p.pruning.samples()->size(), samples);
    for (const float w : p.pruning.samples()->weights) ASSERT_EQ(w, 1);
  }
  Pruned random({PruneRule::random, 0.4}, exponential_losses());
  EXPECT_NEAR(static_cast<double>(random.left_out(1).size()), 400, 60);
}

TEST(SamplePruning, TheOrderIsThatOfTheEpochWithoutThoseLeftOut) {
  for (const PruneRule rule : {PruneRule::infobatch, PruneRule::random}) {
    Pruned p({rule}, exponential_losses());
    p.pruning.begin_epoch(5);
    const auto out = p.pruning.left_out();
    const EpochOrder order(samples, 7, 5);
    std::vector<std::int64_t> want;
    for (std::int64_t i = 0; i < samples; ++i)
      if (!std::ranges::binary_search(out, order[i])) want.push_back(order[i]);
    EXPECT_EQ(p.pruning.samples()->order, want);
    EXPECT_NE(out, p.left_out(6)) << "each epoch draws anew";
  }
}

/// Bernoulli draws by sample: whoever has computed a sample, and in which order, decides nothing.
TEST(SamplePruning, WhatRanksRecordTogetherIsWhatOneRecordsAlone) {
  const auto losses = exponential_losses(103);
  Pruned alone({PruneRule::infobatch}, losses);
  SamplePruning parts[4] = {{{PruneRule::infobatch}, 103, 7, epochs, true, false},
                            {{PruneRule::infobatch}, 103, 7, epochs, true, false},
                            {{PruneRule::infobatch}, 103, 7, epochs, true, false},
                            {{PruneRule::infobatch}, 103, 7, epochs, true, false}};
  for (SamplePruning& p : parts) p.begin_epoch(0);
  for (std::int64_t i = 102; i >= 0; --i)
    parts[i % 4].record(std::vector{i}, std::vector{losses[static_cast<std::size_t>(i)]}, true);
  std::vector<float> sum(206);
  for (const SamplePruning& p : parts) {
    const auto one = p.gather(nullptr);
    std::ranges::transform(sum, one, sum.begin(), std::plus<>());
  }
  for (SamplePruning& p : parts) {
    p.absorb(sum);
    p.end_epoch();
    p.begin_epoch(1);
    EXPECT_EQ(p.left_out(), alone.left_out(1));
    EXPECT_EQ(p.samples()->order, alone.pruning.samples()->order);
  }
}

TEST(SamplePruning, TermsOfOneSampleAddUpAndCountOnce) {
  SamplePruning p({PruneRule::infobatch}, 2, 1, epochs, false, false);
  p.begin_epoch(0);
  p.record(std::vector<std::int64_t>{0, 1}, std::vector{0.5f, 1.0f}, true);
  p.record(std::vector<std::int64_t>{0, 1}, std::vector{0.25f, 0.0f}, false);
  p.absorb(p.gather(nullptr));
  p.end_epoch();
  EXPECT_EQ(p.table().loss, (std::vector{0.75f, 1.0f}));
  EXPECT_EQ(p.table().visits, (std::vector{1.0f, 1.0f}));
}

TEST(SamplePruning, KakurenboHidesTheLowestOfWhichItIsSureAndRaisesTheRate) {
  // Probabilities of the class from 0.99 down.
  std::vector<float> losses;
  for (int i = 0; i < 100; ++i) losses.push_back(-std::log(0.99f - 0.0099f * static_cast<float>(i)));
  Pruned p({PruneRule::kakurenbo}, losses, true);
  EXPECT_EQ(p.left_out(1), all_samples(30)) << "of these the least sure has a probability of 0.70";
  EXPECT_NEAR(p.pruning.rate_factor(), 1 / 0.7, 1e-12);
  EXPECT_TRUE(p.pruning.evaluates_left_out());
  Pruned most({PruneRule::kakurenbo, 0.5}, losses, true);
  EXPECT_EQ(most.left_out(1), all_samples(30)) << "the others move back";
  Pruned values({PruneRule::kakurenbo, 0.5}, losses, false);
  EXPECT_EQ(values.left_out(1), all_samples(50)) << "losses that are no logarithms of probabilities";
  EXPECT_EQ(values.left_out(87), std::vector<std::int64_t>());
  EXPECT_EQ(values.pruning.rate_factor(), 1);
}

/// Counts of correct to wrong between visits; those never learned count most.
TEST(SamplePruning, ForgettingLeavesOutTheNeverForgotten) {
  constexpr float right = 0.1f, wrong = 2.0f;  // exp(-loss): 0.9, 0.14
  const std::vector<std::vector<float>> visits{
      {right, wrong, right, wrong, wrong}, {right, right, wrong, wrong, right}, {right, wrong, right, wrong, right}};
  SamplePruning p({PruneRule::forgetting, 0.5}, 5, 1, 12, false, true);
  const auto visit = [&](std::int64_t epoch, const std::vector<float>& losses) {
    p.begin_epoch(epoch);
    EXPECT_TRUE(p.left_out().empty()) << "a quarter of the epochs observes";
    p.record(all_samples(5), losses, true);
    p.absorb(p.gather(nullptr));
    p.end_epoch();
  };
  for (std::size_t e = 0; e < visits.size(); ++e) visit(static_cast<std::int64_t>(e), visits[e]);
  EXPECT_EQ(p.table().forgotten, (std::vector{0.0f, 1.0f, 1.0f, 0.0f, 0.0f}));
  EXPECT_EQ(p.table().learned, (std::vector{3.0f, 1.0f, 2.0f, 0.0f, 2.0f}));
  EXPECT_EQ(p.scores(), (std::vector{0.0f, 1.0f, 1.0f, 12.0f, 0.0f}));
  p.begin_epoch(3);
  EXPECT_EQ(p.left_out(), (std::vector<std::int64_t>{0, 4}));
}

TEST(SamplePruning, El2nLeavesOutThoseThatEarlyEpochsPredictBest) {
  const auto losses = exponential_losses(20);
  SamplePruning p({PruneRule::el2n, 0.25}, 20, 1, 20, true, true);
  for (std::int64_t epoch : {0, 1}) {
    p.begin_epoch(epoch);
    EXPECT_TRUE(p.left_out().empty());
    p.record(all_samples(20), losses, true);
    p.absorb(p.gather(nullptr));
    p.end_epoch();
  }
  auto order = all_samples(20);
  std::ranges::sort(order, {}, [&](std::int64_t i) { return losses[static_cast<std::size_t>(i)]; });
  std::vector<std::int64_t> want(order.begin(), order.begin() + 5);
  std::ranges::sort(want);
  p.begin_epoch(2);
  EXPECT_EQ(p.left_out(), want);
  // Of two classes with the probabilities p and 1 - p, |softmax - one-hot| is sqrt(2) (1 - p).
  const auto scores = p.scores();
  for (std::size_t i = 0; i < scores.size(); ++i)
    EXPECT_NEAR(scores[i], std::sqrt(2.0) * (1 - std::exp(-static_cast<double>(losses[i]))), 1e-6);
}

TEST(SamplePruning, AnEpochKeepsASample) {
  Pruned p({PruneRule::random, 0.95}, {1.0f});
  for (std::int64_t epoch = 0; epoch < 50; ++epoch) EXPECT_TRUE(p.left_out(epoch).empty());
}

/// Losses of a part of the epoch are known, to some ranks or to all.
TEST(SamplePruning, GoesOnWithinAnEpochFromItsState) {
  for (const PruneRule rule :
       {PruneRule::infobatch, PruneRule::random, PruneRule::kakurenbo, PruneRule::forgetting, PruneRule::el2n}) {
    const PruneOptions options{rule, 0.5};
    const auto losses = exponential_losses(101);
    Pruned whole(options, losses);
    whole.pruning.begin_epoch(1);
    SamplePruning rest(options, 101, 7, epochs, true, false);
    const auto order = whole.pruning.samples()->order;
    const auto record = [&](SamplePruning& p, std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < std::min(end, order.size()); ++i)
        p.record(std::vector{order[i]}, std::vector{static_cast<float>(i)}, true);
      p.absorb(p.gather(nullptr));
    };
    record(whole.pruning, 0, 20);
    rest.restore(whole.pruning.state(true), true, 1, "");
    EXPECT_EQ(rest.samples()->order, order);
    EXPECT_EQ(rest.samples()->weights, whole.pruning.samples()->weights);
    EXPECT_EQ(rest.rate_factor(), whole.pruning.rate_factor());
    for (SamplePruning* p : {&whole.pruning, &rest}) {
      record(*p, 20, 101);
      p->end_epoch();
      p->begin_epoch(2);
    }
    EXPECT_EQ(rest.state(false), whole.pruning.state(false));
    EXPECT_EQ(rest.samples()->order, whole.pruning.samples()->order);
  }
}

TEST(SamplePruning, RefusesStatesThatNoRunHas) {
  Pruned p({PruneRule::infobatch}, exponential_losses(10));
  p.pruning.begin_epoch(1);
  const auto good = p.pruning.state(true);
  const auto refused = [&](const char* array, std::vector<float> values) {
    auto bad = good;
    bad.at(array) = std::move(values);
    return message_of<InputError>([&] { p.pruning.restore(bad, true, 1, "step.h5"); });
  };
  EXPECT_NE(refused("loss", std::vector<float>(9)).find("step.h5: it knows 9 'loss' of samples, but the training data"),
            std::string::npos);
  auto negative = good.at("weight");
  negative[3] = -1;
  EXPECT_NE(refused("weight", negative).find("'weight' of sample 3 is -1"), std::string::npos);
  p.pruning.restore({}, true, 1, "");
  EXPECT_EQ(p.pruning.samples()->size(), 10);
}

}  // namespace
}  // namespace keelson::testing
