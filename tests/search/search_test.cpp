#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "search/log/pareto.hpp"
#include "search/run/virtual_clock.hpp"
#include "tests/search/spaces.hpp"

namespace keelson::search {
namespace {

/// A loss that depends on the network alone, from 0 to 1.
double loss_of(const Individual& i) {
  Draws draws({philox::stream_of(i.key), philox::stream_of("loss"), 0});
  return draws.uniform();
}

/// Log-normal times, sigma 0.8, of median 1.
double seconds_of(const Individual& i) {
  Draws draws({philox::stream_of(i.key), philox::stream_of("seconds"), 0});
  return std::exp(0.8 * draws.normal());
}

Result result_of(const Individual& i, int rung) {
  return {.rung = rung, .loss = loss_of(i), .metric = 0, .seconds = seconds_of(i), .step_ms = 1};
}

// ---- early stopping

/// Li et al. 2018: with n = 64, eta = 4, r = 1 and R = 64, 64, 16, 4 and 1 networks are trained in the rungs.
TEST(Asha, PromotesTheBestQuarter) {
  Settings s = settings_of(table_space());
  s.method = "random";
  s.epochs = 64;
  s.first_epochs = 1;
  ASSERT_EQ(s.rungs(), 4);
  std::vector<int> trained(4);
  double epochs = 0;
  const auto search = search_virtually(s, RandomSearch(), 64, {.networks = 64}, [&](const Individual& i, int rung) {
    ++trained[static_cast<std::size_t>(rung)];
    epochs += s.epochs_of(rung) - (rung == 0 ? 0 : s.epochs_of(rung - 1));
    return Result{.rung = rung, .loss = loss_of(i), .metric = 0, .seconds = 1, .step_ms = 1};
  });
  EXPECT_EQ(trained, (std::vector<int>{64, 16, 4, 1}));
  EXPECT_EQ(epochs, 64 + 16 * 3 + 4 * 12 + 48);
  // All have ended at the same time, so the network of the last rung is the best of all.
  const auto& all = search.population.all();
  const auto best = std::min_element(all.begin(), all.end(), [](auto& a, auto& b) { return loss_of(a) < loss_of(b); });
  EXPECT_EQ(best->results.size(), 4u);
}

TEST(Asha, EndsWithTheLongestTraining) {
  Settings s = settings_of(table_space());
  s.epochs = 10;
  s.first_epochs = 1;
  s.eta = 3;
  ASSERT_EQ(s.rungs(), 4);
  EXPECT_EQ(s.epochs_of(2), 9);
  EXPECT_EQ(s.epochs_of(3), 10);
}

// ---- several objectives

TEST(Pareto, FrontsAndCrowding) {
  //                                         front 0         front 0   front 0   front 1   front 2
  const std::vector<std::vector<double>> points{{1, 5}, {2, 2}, {5, 1}, {3, 3}, {4, 4}};
  const ParetoOrder order = pareto_order(points);
  EXPECT_EQ(order.front, (std::vector<int>{0, 0, 0, 1, 2}));
  EXPECT_DOUBLE_EQ(order.crowding[1], 1 + 1);  // (5 - 1) / 4 in both objectives
  EXPECT_TRUE(std::isinf(order.crowding[0]) && std::isinf(order.crowding[2]));
  EXPECT_EQ(order.order, (std::vector<std::size_t>{0, 2, 1, 3, 4}));
  EXPECT_EQ(pareto_order({{3}, {1}, {1}, {2}}).order, (std::vector<std::size_t>{1, 2, 3, 0}));
}

TEST(Search, OfTwoObjectivesKeepsTheFront) {
  Settings s = settings_of(table_space());
  s.objectives = {Objective::loss, Objective::parameters};
  // A larger network is better, so every size that was tried is a compromise.
  const auto search = search_virtually(s, Evolution(), 4, {.networks = 200}, [](const Individual& i, int rung) {
    return Result{.rung = rung, .loss = 1 / std::log(static_cast<double>(i.cost.parameters)), .seconds = seconds_of(i)};
  });
  std::set<std::int64_t> sizes;
  for (const auto& i : search.population.all()) sizes.insert(i.cost.parameters);
  EXPECT_GE(search.population.front().size(), sizes.size());
}

// ---- the log is the whole search

class Replay : public ::testing::TestWithParam<const char*> {};

/// Each network can be made again from the lines before its own, and none is made twice.
TEST_P(Replay, MakesTheSameNetworks) {
  Settings s = settings_of(image_space(), 7);
  s.method = GetParam();
  s.epochs = 16;
  s.first_epochs = 1;
  const auto method = make_method(s);
  const auto search = search_virtually(s, *method, 5, {.networks = 120}, result_of);
  Population population;
  std::set<std::string> keys;
  for (const std::string& line : search.lines) {
    if (line.find("\"type\":\"birth\"") != line.npos) {
      const Individual& made = search.population.all()[population.all().size()];
      ASSERT_EQ(made.seen, population.seen());
      const auto again = next_individual(population, *method, made.slot);
      ASSERT_TRUE(again.has_value());
      EXPECT_EQ(again->key, made.key);
      EXPECT_EQ(again->parents, made.parents);
      EXPECT_TRUE(keys.insert(made.key).second);
    }
    population.apply(line);
  }
  EXPECT_EQ(keys.size(), 120u);
  EXPECT_EQ(population.best(120), search.population.best(120));
}
INSTANTIATE_TEST_SUITE_P(Methods, Replay, ::testing::Values("evolution", "ageing", "random"));

// ---- time

/// The part of the workers' time in which they trained, until the last network began: then the budget is used up, and
/// the last trainings end one after the other.
double busy_before_the_end(const VirtualSearch& search, int workers) {
  double last = 0, trained = 0;
  for (const VirtualTraining& t : search.trainings)
    if (t.rung == 0) last = std::max(last, t.begin);
  for (const VirtualTraining& t : search.trainings) trained += std::max(0.0, std::min(t.end, last) - t.begin);
  return trained / (last * workers);
}

/// Workers wait for nobody, so they train all the time until the budget is used up. With KEELSON_LONG_TESTS=all also
/// 1024 workers, which train 204,800 networks.
TEST(VirtualClock, WorkersAreBusy) {
  const char* asked = std::getenv("KEELSON_LONG_TESTS");
  std::vector<int> numbers{4, 64};
  if (asked != nullptr && std::string(asked) == "all") numbers.push_back(1024);
  for (const int workers : numbers)
    for (const bool early : {false, true}) {
      Settings s = settings_of(table_space());
      s.space.most_dense = 1;
      s.epochs = 16;
      s.first_epochs = early ? 1 : 16;
      const auto search = search_virtually(s, Evolution(), workers, {.networks = 200 * workers}, result_of);
      EXPECT_EQ(search.population.all().size(), static_cast<std::size_t>(200 * workers));
      const double before = busy_before_the_end(search, workers);
      EXPECT_GE(before, 0.999) << workers;
      if (!early || workers < 1024) {
        EXPECT_GE(search.busy, 0.95) << workers;
      }
      std::printf("%4d workers, %s: trained %.1f %% of the time, %.2f %% until the last network began\n", workers,
                  early ? "early stopping" : "all to the end", 100 * search.busy, 100 * before);
    }
}

// ---- a planted optimum

template <class Part>
double distance(const std::vector<Part>& a, const std::vector<Part>& b, const std::vector<Gene>& genes) {
  double sum = 0;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i >= std::min(a.size(), b.size())) {
      sum += 1;
      continue;
    }
    for (std::size_t g = 0; g < genes.size(); ++g) {
      const double steps = std::abs(a[i][g] - b[i][g]), most = static_cast<double>(genes[g].choices.size()) - 1;
      if (most > 0) sum += (genes[g].ordered ? steps / most : steps > 0) / static_cast<double>(genes.size());
    }
  }
  return sum;
}

double distance(const Genome& a, const Genome& b, const Space& space) {
  return distance(a.stages, b.stages, space.stage) + distance(a.dense, b.dense, space.dense) +
         distance(std::vector{a.training}, std::vector{b.training}, space.training);
}

/// Evaluations until a network is as near to the secret one as `goal`; `most`: it was not found.
std::int64_t evaluations_to(const Method& method, const Settings& s, const Genome& secret, double goal,
                            std::int64_t most) {
  const auto search = search_virtually(s, method, 8, {.networks = most}, [&](const Individual& i, int rung) {
    return Result{.rung = rung, .loss = distance(i.genome, secret, s.space), .seconds = seconds_of(i)};
  });
  std::int64_t n = 0;
  for (const auto& t : search.trainings) {
    ++n;
    if (t.result.loss <= goal) return n;
  }
  return most;
}

/// Evolution finds what random search finds in 900 evaluations in a third of them.
TEST(Evolution, FindsAPlantedOptimum) {
  constexpr int seeds = 7;
  constexpr std::int64_t most = 900;
  std::vector<std::int64_t> needed;
  for (int seed = 1; seed <= seeds; ++seed) {
    const Settings s = settings_of(image_space(), static_cast<std::uint64_t>(seed));
    Draws draws({static_cast<std::uint64_t>(seed), philox::stream_of("secret"), 0});
    const Genome secret = repaired(random_genome(s.space, draws), s.space);
    const auto random = search_virtually(s, RandomSearch(), 8, {.networks = most}, [&](const Individual& i, int rung) {
      return Result{.rung = rung, .loss = distance(i.genome, secret, s.space), .seconds = seconds_of(i)};
    });
    double goal = 1e9;
    for (const auto& i : random.population.all()) goal = std::min(goal, i.last()->loss);
    needed.push_back(evaluations_to(Evolution(), s, secret, goal, most));
  }
  std::sort(needed.begin(), needed.end());
  EXPECT_LE(needed[seeds / 2], most / 3);
}

}  // namespace
}  // namespace keelson::search
