#include "apps/search/compare_methods.hpp"

#include <gtest/gtest.h>

#include "engine/base/error.hpp"
#include "tests/search/spaces.hpp"

namespace keelson::search {
namespace {

/// Darwin's maize plants, with ranks and variance by hand: T = 24, z = (24 - 60 + 0.5) / sqrt(310).
TEST(Compare, Wilcoxon) {
  const std::vector<double> maize{6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75};
  EXPECT_NEAR(wilcoxon(maize), 0.043770, 1e-5);
  EXPECT_EQ(wilcoxon({0, 0}), 1);
  EXPECT_EQ(wilcoxon({1, -1}), 1);
}

TEST(Compare, Holm) {
  EXPECT_EQ(holm({0.01, 0.04, 0.03}), (std::vector<double>{0.03, 0.06, 0.06}));
  EXPECT_EQ(holm({0.9, 0.8}), (std::vector<double>{1, 1}));
}

TEST(Compare, RanksMethods) {
  const Runs good{{{}, {3, 1, 0}}, {{}, {2, 1, 0}}, {{}, {4, 2, 0}}},
      bad{{{}, {4, 3, 2}}, {{}, {4, 1, 1}}, {{}, {4, 4, 1}}};
  const Comparison c = compare_runs({{"random", bad}, {"evolution", good}}, "random");
  ASSERT_EQ(c.methods[0].name, "evolution");
  EXPECT_EQ(c.methods[0].mean_rank, 1);
  EXPECT_EQ(c.methods[1].mean_rank, 2);
  EXPECT_EQ(c.methods[1].regret[1], 1);
  EXPECT_EQ(c.methods[0].needed, 2);  // the median after two trainings is 1
  EXPECT_EQ(c.tests[0].better, 3);
  EXPECT_THROW(compare_runs({{"evolution", good}}, "random"), InputError);
}

Space small_space() {
  Space s = table_space();
  s.restrict(
      R"({"dense": {"layers": [1, 2], "units": [16, 32], "activation": ["relu"], "batch_norm": ["no"], "dropout": ["0"]},
                 "training": {"optimizer": ["sgd", "adam"], "rate": ["0.001", "0.01", "0.1"], "momentum": ["0", "0.9"],
                              "weight_decay": ["0"], "batch": [32], "schedule": ["constant"], "warmup": ["0"]}})");
  return s;
}

/// A grid has each network once, and its log serves searches by other methods.
TEST(Table, ServesSearches) {
  Settings s = settings_of(small_space());
  s.method = "grid";
  s.epochs = 4;
  s.first_epochs = 1;
  s.eta = 2;
  const auto grid = make_method(s);
  const auto loss = [](const Individual& i, int rung) {
    return Draws({philox::stream_of(i.key), 1, static_cast<std::uint64_t>(rung)}).uniform() + 1.0 / (1 + rung);
  };
  const auto full = search_virtually(s, *grid, 3, {}, [&](const Individual& i, int rung) {
    return Result{.rung = rung, .loss = loss(i, rung), .metric = 0, .seconds = 1.0 + rung, .step_ms = 1};
  });
  // 1 or 2 layers of 2 widths; SGD with 2 momenta or Adam, of 3 rates.
  const std::size_t networks = (2 + 4) * 3 * 3;
  EXPECT_EQ(full.population.all().size(), networks);
  EXPECT_EQ(full.trainings.size(), 3 * networks);
  EXPECT_THROW(
      Table(search_virtually(s, *grid, 3, {.networks = 5}, [](auto&, int rung) { return Result{.rung = rung}; })
                .population),
      InputError);
  const Table table(full.population);
  Settings random = s;
  random.method = "random";
  random.first_epochs = 4;
  const Course whole = search_on(table, random, 2, {.networks = static_cast<std::int64_t>(networks)});
  EXPECT_EQ(whole.regret.back(), 0);                                                 // all networks were tried
  EXPECT_NEAR(whole.seconds.back(), 6.0 * static_cast<double>(networks) / 2, 1e-9);  // 1 + 2 + 3 s each, on two workers
  random.first_epochs = 1;
  random.eta = 4;
  EXPECT_LT(search_on(table, random, 2, {.networks = static_cast<std::int64_t>(networks)}).regret.size(), networks);
  random.first_epochs = 1;  // of one network none is promoted
  EXPECT_THROW(search_on(table, random, 2, {.networks = 1}), InputError);
  random.first_epochs = 3;
  EXPECT_THROW(search_on(table, random, 2, {.networks = 2}), InputError);
}

}  // namespace
}  // namespace keelson::search
