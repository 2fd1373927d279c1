#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "search/log/pareto.hpp"
#include "search/log/population.hpp"
#include "search/log/sorted_blocks.hpp"
#include "search/method/method.hpp"
#include "tests/search/spaces.hpp"

namespace keelson::search {
namespace {

/// Of many values, some of which are equal, each operation does what a std::multiset does.
TEST(SortedBlocks, AreAMultiset) {
  Draws draws({1, philox::stream_of("sorted blocks"), 0});
  SortedBlocks<int> blocks;
  std::multiset<int> set;
  const auto walk = [](std::size_t n) { return static_cast<std::ptrdiff_t>(n); };
  for (int step = 0; step < 20000; ++step) {
    const auto value = static_cast<int>(draws.below(3000));
    if (const bool shrinks = step / 4000 % 2 == 1; draws.happens(shrinks ? 0.2 : 0.9)) {
      blocks.insert(value);
      set.insert(value);
    } else {
      blocks.erase(value);
      if (const auto found = set.find(value); found != set.end()) set.erase(found);
    }
    ASSERT_EQ(blocks.size(), set.size());
    if (step % 50 != 0 || set.empty()) continue;
    const std::size_t place = draws.below(set.size());
    EXPECT_EQ(blocks[place], *std::next(set.begin(), walk(place)));
    EXPECT_EQ(blocks.place_of(value), static_cast<std::size_t>(std::distance(set.begin(), set.lower_bound(value))));
    EXPECT_EQ(blocks.first(place), std::vector<int>(set.begin(), std::next(set.begin(), walk(place))));
    EXPECT_EQ(blocks.first(set.size() + 5).size(), set.size());
  }
  for (const int value : std::multiset<int>(set)) blocks.erase(value);
  EXPECT_EQ(blocks.size(), 0u);
  EXPECT_EQ(blocks.place_of(1), 0u);
}

/// A point belongs to the front behind the last one with a point that dominates it, as comparing all pairs shows.
TEST(Pareto, FrontsOfManyPoints) {
  Draws draws({2, philox::stream_of("points"), 0});
  for (const std::size_t objectives : {2u, 3u, 4u}) {
    std::vector<std::vector<double>> points(150, std::vector<double>(objectives));
    for (auto& point : points)
      for (double& value : point) value = static_cast<double>(draws.below(12));
    const auto front = pareto_order(points).front;
    for (std::size_t a = 0; a < points.size(); ++a) {
      int expected = 0;
      for (std::size_t b = 0; b < points.size(); ++b) {
        bool dominates = points[a] != points[b];
        for (std::size_t k = 0; k < objectives; ++k) dominates &= points[b][k] <= points[a][k];
        if (dominates) expected = std::max(expected, front[b] + 1);
      }
      ASSERT_EQ(front[a], expected) << objectives << " objectives, point " << a;
    }
  }
}

/// What a population says, found by a walk through all networks.
struct Walk {
  const Population& population;

  std::vector<std::pair<double, std::int64_t>> results_of(std::size_t rung) const {
    std::vector<std::pair<double, std::int64_t>> all;
    for (const Individual& i : population.all())
      if (i.results.size() > rung) all.emplace_back(i.results[rung].loss, i.id);
    std::sort(all.begin(), all.end());
    return all;
  }
  std::optional<std::int64_t> promotable() const {
    const Settings& s = population.settings();
    for (int rung = s.rungs() - 2; rung >= 0; --rung) {
      const auto k = static_cast<std::size_t>(rung);
      auto results = results_of(k);
      results.resize(results.size() / static_cast<std::size_t>(s.eta));
      for (const auto& [loss, id] : results) {
        const Individual& i = population.all()[static_cast<std::size_t>(id)];
        if (i.results.size() == k + 1 && !i.running && i.failure.empty()) return id;
      }
    }
    return std::nullopt;
  }
  double lease(int rung) const {
    std::vector<double> seconds;
    for (const Individual& i : population.all())
      if (std::ssize(i.results) > rung) seconds.push_back(i.results[static_cast<std::size_t>(rung)].seconds);
    std::sort(seconds.begin(), seconds.end());
    if (seconds.size() < 5) return INFINITY;
    const auto place = static_cast<std::size_t>(0.95 * static_cast<double>(seconds.size() - 1));
    return std::max(population.settings().least_lease, 3 * seconds[place]);
  }
  std::optional<std::int64_t> lost(double now) const {
    for (const Individual& i : population.all())
      if (i.running && (i.orphaned || now - i.since > lease(i.rung))) return i.id;
    return std::nullopt;
  }
  std::vector<std::int64_t> best() const {
    std::vector<std::pair<double, std::int64_t>> all;
    for (const Individual& i : population.all())
      if (i.last() != nullptr && i.failure.empty()) all.emplace_back(i.last()->loss, i.id);
    std::sort(all.begin(), all.end());
    std::vector<std::int64_t> ids;
    for (const auto& [loss, id] : all) ids.push_back(id);
    return ids;
  }
};

/// A log of births, results, promotions, failures, new starts, and lines that come too late or make no sense.
class RandomLog {
 public:
  explicit RandomLog(std::uint64_t seed) : draws_({seed, philox::stream_of("random log"), 0}) {}

  std::string next(const Population& population, double now) {
    const auto networks = population.all().size();
    const auto any = static_cast<std::int64_t>(draws_.below(networks + 1));  // one that there is not, too
    const auto rung = static_cast<int>(draws_.below(6));
    if (networks == 0 || draws_.happens(0.25))
      return birth_line(next_individual(population, RandomSearch(), slot()).value(), population.settings().space, 0,
                        now);
    if (draws_.happens(0.01)) return start_line(3, now);
    if (draws_.happens(0.05)) return run_line(any, rung, static_cast<int>(draws_.below(3)), slot(), now);
    if (const auto id = population.promotable(); id && draws_.happens(0.3))
      return run_line(*id, static_cast<int>(of(population, *id).results.size()), 0, slot(), now);
    if (const auto id = population.lost(now); id && draws_.happens(0.3))
      return run_line(*id, of(population, *id).rung, of(population, *id).attempt + 1, slot(), now);
    if (draws_.happens(0.05) || any == static_cast<std::int64_t>(networks)) return result_line(any, result(rung), now);
    const Individual& i = of(population, any);
    if (i.running && draws_.happens(0.1)) return failure_line(any, i.rung, "no reason", draws_.happens(0.5), now);
    return result_line(any, result(i.running ? i.rung : rung), now);
  }

 private:
  static const Individual& of(const Population& p, std::int64_t id) { return p.all()[static_cast<std::size_t>(id)]; }
  int slot() { return static_cast<int>(draws_.below(3)); }
  Result result(int rung) {
    const double loss = static_cast<double>(draws_.below(20)) / 8;
    return {.rung = rung, .loss = loss, .metric = 0, .seconds = std::exp(draws_.normal()), .step_ms = 1};
  }

  Draws draws_;
};

class ChoiceOrder : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(ChoiceOrder, AreThoseOfAWalk) {
  Settings s = settings_of(table_space());
  s.epochs = 16;
  s.first_epochs = 1;
  s.eta = 2;
  s.least_lease = 4;
  Population population;
  population.apply(s.to_json());
  const Walk walk{population};
  RandomLog log(GetParam());
  int promotions = 0, losses = 0;
  for (int step = 0; step < 600; ++step) {
    const double now = 0.05 * step;
    population.apply(log.next(population, now));
    const auto promotable = walk.promotable();
    const auto lost = walk.lost(now);
    promotions += promotable ? 1 : 0;
    losses += lost ? 1 : 0;
    ASSERT_EQ(population.promotable(), promotable) << step;
    ASSERT_EQ(population.lost(now), lost) << step;
    const auto best = walk.best();
    ASSERT_EQ(population.best(best.size() + 1), best) << step;
    ASSERT_EQ(population.with_results(), std::ssize(best)) << step;
    if (!best.empty()) {
      EXPECT_EQ(population.at_place(best.size() / 2), best[best.size() / 2]);
    }
    for (int rung = 0; rung < s.rungs(); ++rung) ASSERT_EQ(population.lease(rung), walk.lease(rung)) << step;
  }
  EXPECT_GT(promotions, 50);  // the log had what the test is about
  EXPECT_GT(losses, 50);
}
INSTANTIATE_TEST_SUITE_P(Seeds, ChoiceOrder, ::testing::Values(1, 2, 3));

/// The ranking by several objectives is kept between results; a result or a failure makes it anew.
TEST(Population, RanksBySeveralObjectivesAgain) {
  Settings s = settings_of(table_space());
  s.objectives = {Objective::loss, Objective::parameters};
  s.method = "random";
  Population population;
  population.apply(s.to_json());
  RandomLog log(4);
  std::size_t longest = 0;
  for (int step = 0; step < 300; ++step) {
    population.apply(log.next(population, step));
    std::vector<std::int64_t> ids;
    std::vector<std::vector<double>> points;
    for (const std::int64_t id : Walk{population}.best()) {
      ids.push_back(id);
      points.push_back(population.values_of(population.all()[static_cast<std::size_t>(id)]));
    }
    std::vector<std::int64_t> expected;
    for (const std::size_t k : pareto_order(points).order) expected.push_back(ids[k]);
    ASSERT_EQ(population.best(ids.size()), expected) << step;
    longest = std::max(longest, expected.size());
  }
  EXPECT_GT(longest, 30u);
}

}  // namespace
}  // namespace keelson::search
