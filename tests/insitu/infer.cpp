#include <gtest/gtest.h>

#include <algorithm>

#include "tests/insitu/simulation.hpp"
#include "tests/support/allocations.hpp"

namespace keelson::testing {
namespace {

const char* const layers = "conv 6 3; relu; conv 1 3";  // a cell's result depends on those up to 2 cells away

struct Result {
  std::vector<double> output;
  std::vector<float> scores, rest;
};

struct Tiles {
  std::vector<std::int64_t> tile, halo;
  int batch = 0;
};

/// The network on a field in this arrangement; 64 cells in the first dimension of the whole field.
Result infer(MPI_Comm comm, const std::vector<std::int64_t>& global, const Arrangement& a, const Tiles& tiles) {
  const OpenSession session(comm);
  Part in(comm, "u", global, a, wave), out(comm, "v", global, a, [](auto...) { return -7.0; });
  for (Part* p : {&in, &out}) {
    const auto desc = p->desc();
    KEELSON_WORKS(session, keelson_insitu_field(session, &desc));
  }
  keelson_insitu_model_desc model{};
  model.name = "net";
  model.layers = layers;
  model.inputs = "u";
  model.output = "v";
  model.seed = 3;
  model.batch = tiles.batch;
  for (std::size_t d = 0; d < tiles.tile.size(); ++d) model.tile[d] = tiles.tile[d];
  for (std::size_t d = 0; d < tiles.halo.size(); ++d) model.halo[d] = tiles.halo[d];
  KEELSON_WORKS(session, keelson_insitu_model(session, &model));
  KEELSON_WORKS(session, keelson_insitu_infer(session, "net"));
  const float* scores = nullptr;
  std::int64_t count = 0;
  KEELSON_WORKS(session, keelson_insitu_scores(session, "net", &scores, &count));
  return {out.interior(), std::vector<float>(scores, scores + count), out.rest()};
}

TEST(InsituInfer, GivesTheSameForAllArrangementsOfTheHostsArrays) {
  for (const std::vector<std::int64_t>& global : {std::vector<std::int64_t>{32, 12}, {16, 10, 9}}) {
    const Tiles whole{.tile = {}, .halo = std::vector<std::int64_t>(global.size(), 2)};
    const auto expected = infer(MPI_COMM_SELF, global, {.ghosts = 0}, whole).output;
    EXPECT_GT(largest_difference(expected, std::vector<double>(expected.size(), 0.0)), 0.01);
    const Arrangement arrangements[] = {{.ghosts = 3},
                                        {.is_double = true, .ghosts = 2},
                                        {.ghosts = 1, .first_fastest = true},
                                        {.is_double = true, .ghosts = 1, .spread = 3},
                                        {.ghosts = 2, .on_host = true}};
    for (const auto& a : arrangements) {
      const auto found = infer(MPI_COMM_SELF, global, a, whole);
      EXPECT_LT(largest_difference(found.output, expected), 1e-6);
      const Part untouched(MPI_COMM_SELF, "v", global, a, [](auto...) { return -7.0; });
      EXPECT_EQ(found.rest, untouched.rest());  // ghost cells and what lies between cells
    }
  }
}

TEST(InsituInfer, GivesTheSameForAnyTiles) {
  const std::vector<std::int64_t> global{32, 12};
  const Arrangement a{.ghosts = 2};
  const auto expected = infer(MPI_COMM_SELF, global, a, {.halo = {2, 2}}).output;
  for (const Tiles& tiles : {Tiles{{8, 4}, {2, 2}, 0}, {{8, 4}, {2, 2}, 5}, {{7, 5}, {2, 2}, 1}, {{32, 3}, {2, 3}, 3}})
    EXPECT_LT(largest_difference(infer(MPI_COMM_SELF, global, a, tiles).output, expected), 1e-5);
}

TEST(InsituInfer, GivesTheSameOnAnyNumberOfRanks) {
  const std::vector<std::int64_t> global{32, 12};
  const Arrangement a{.is_double = true, .ghosts = 2};
  const auto whole = infer(MPI_COMM_SELF, global, a, {.halo = {2, 2}}).output;
  const auto part = infer(MPI_COMM_WORLD, global, a, {.halo = {2, 2}}).output;
  const auto first = static_cast<std::ptrdiff_t>(part.size()) * rank_of(MPI_COMM_WORLD);
  const std::vector<double> mine(whole.begin() + first, whole.begin() + first + std::ssize(part));
  EXPECT_LT(largest_difference(part, mine), 1e-5);
}

TEST(InsituInfer, ScoresAreMeansOverTiles) {
  const auto found = infer(MPI_COMM_SELF, {32, 12}, {}, {.tile = {8, 6}});
  ASSERT_EQ(found.scores.size(), 8u);
  double sum = 0;
  for (std::size_t i = 8; i < 16; ++i)
    for (std::size_t j = 6; j < 12; ++j) sum += found.output[i * 12 + j];
  EXPECT_NEAR(found.scores[3], sum / 48, 1e-6);
}

TEST(InsituInfer, ScoresOfLargeTilesAreMeans) {
  const auto found = infer(MPI_COMM_SELF, {16, 20, 9}, {}, {.tile = {16, 20, 9}, .halo = {2, 2, 2}});
  ASSERT_EQ(found.scores.size(), 1u);
  double sum = 0;
  for (const double v : found.output) sum += v;
  EXPECT_NEAR(found.scores[0], sum / (16 * 20 * 9), 1e-6);
}

TEST(InsituInfer, NetworksWithAResultPerTileMakeScores) {
  const OpenSession session;
  Part u(MPI_COMM_WORLD, "u", {32, 16}, {}, wave);
  const auto desc = u.desc();
  KEELSON_WORKS(session, keelson_insitu_field(session, &desc));
  keelson_insitu_model_desc model{};
  model.name = "net";
  model.layers = "conv 4 3; relu; max_pool 2; flatten; dense 2";
  model.inputs = "u";
  model.channel = 1;
  model.tile[0] = 8, model.tile[1] = 8;
  KEELSON_WORKS(session, keelson_insitu_model(session, &model));
  KEELSON_WORKS(session, keelson_insitu_infer(session, "net"));
  const float* scores = nullptr;
  std::int64_t count = 0;
  KEELSON_WORKS(session, keelson_insitu_scores(session, "net", &scores, &count));
  ASSERT_EQ(count, 8 / size_of_comm(MPI_COMM_WORLD));
  EXPECT_NE(scores[0], scores[1]);
  model.name = "other";
  model.output = "u";
  expect_refused(keelson_insitu_model(session, &model), session,
                 {"other", "the output is the field 'u'", "of its own"});
  Part w(MPI_COMM_WORLD, "w", {32, 16}, {}, wave);
  const auto other = w.desc();
  KEELSON_WORKS(session, keelson_insitu_field(session, &other));
  model.output = "w";
  expect_refused(keelson_insitu_model(session, &model), session, {"other", "no value per cell"});
}

TEST(InsituInfer, AllocatesNothingAfterTheFirstCallAndFollowsMovedArrays) {
  const OpenSession session(MPI_COMM_SELF);
  const Arrangement a{.is_double = true, .ghosts = 1};
  Part u(MPI_COMM_SELF, "u", {256, 256}, a, wave), v(MPI_COMM_SELF, "v", {256, 256}, a, wave);
  Part other(MPI_COMM_SELF, "u", {256, 256}, a, [](auto i, auto j, auto k) { return 2 * wave(i, j, k); });
  for (Part* p : {&u, &v}) {
    const auto desc = p->desc();
    KEELSON_WORKS(session, keelson_insitu_field(session, &desc));
  }
  keelson_insitu_model_desc model{};
  model.name = "net";
  model.layers = layers;
  model.inputs = "u";
  model.output = "v";
  model.tile[0] = 64, model.tile[1] = 64;
  model.batch = 4;
  KEELSON_WORKS(session, keelson_insitu_model(session, &model));
  KEELSON_WORKS(session, keelson_insitu_infer(session, "net"));
  const auto before = v.interior();
  const Allocations used = allocations_of([&] { keelson_insitu_infer(session, "net"); });
  // Small change of libraries per call of a kernel, as in a step of a plan, but no array: the tiles of the smallest
  // have 256 KiB.
  EXPECT_LT(used.bytes, std::max<std::int64_t>(128 * 1024, 2048 * used.calls)) << used.calls;
  EXPECT_EQ(before, v.interior());
  KEELSON_WORKS(session, keelson_insitu_field_data(session, "u", other.data()));
  KEELSON_WORKS(session, keelson_insitu_infer(session, "net"));
  EXPECT_GT(largest_difference(before, v.interior()), 0.01);
}

TEST(InsituInfer, EachCellIsWrittenByTheFirstTileThatHasIt) {
  // Without a halo the results at the borders of tiles differ, so what overlapping tiles give tells who wrote.
  const auto found = infer(MPI_COMM_SELF, {16, 12}, {}, {.tile = {16, 8}, .halo = {}});
  const auto whole = infer(MPI_COMM_SELF, {16, 8}, {}, {.tile = {16, 8}, .halo = {}});
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 8; ++j) EXPECT_EQ(found.output[i * 12 + j], whole.output[i * 8 + j]) << i << " " << j;
}

}  // namespace
}  // namespace keelson::testing
