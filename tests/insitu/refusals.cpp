#include <gtest/gtest.h>

#include "tests/insitu/simulation.hpp"

namespace keelson::testing {
namespace {

keelson_insitu_field_desc plain_field(const char* name) {
  keelson_insitu_field_desc d{};
  d.name = name;
  d.dtype = KEELSON_INSITU_DOUBLE;
  d.ndims = 2;
  d.extents[0] = 16, d.extents[1] = 8;
  return d;
}

TEST(InsituRefusals, OfSessions) {
  keelson_insitu* session = nullptr;
  expect_refused(keelson_insitu_open(MPI_COMM_NULL, nullptr, &session), nullptr, {"MPI_COMM_NULL", "Expected"});
  EXPECT_EQ(session, nullptr);
  expect_refused(keelson_insitu_open(MPI_COMM_WORLD, "/no/such/folder/log", &session), nullptr,
                 {"/no/such/folder/log"});
  EXPECT_EQ(session, nullptr);
  expect_refused(keelson_insitu_infer(nullptr, "net"), nullptr, {"session is NULL"});
  EXPECT_EQ(keelson_insitu_close(&session), KEELSON_INSITU_OK);
}

TEST(InsituRefusals, OfFields) {
  const OpenSession session;
  const auto refused = [&](auto change, const std::vector<std::string>& words) {
    auto d = plain_field("u");
    change(d);
    expect_refused(keelson_insitu_field(session, &d), session, words);
  };
  expect_refused(keelson_insitu_field(session, nullptr), session, {"`field` is NULL"});
  refused([](auto& d) { d.name = nullptr; }, {"no name"});
  refused([](auto& d) { d.name = "a b"; }, {"'a b'", "space"});
  refused([](auto& d) { d.dtype = 7; }, {"dtype is 7", "KEELSON_INSITU_FLOAT (1)"});
  refused([](auto& d) { d.ndims = 1; }, {"ndims is 1", "2 or 3"});
  refused([](auto& d) { d.extents[1] = 0; }, {"dimension 1 is 0"});
  refused([](auto& d) { d.ghosts[0] = -1; }, {"-1 ghost cells"});
  refused([](auto& d) { d.strides[0] = 8; }, {"stride of dimension 1 is 0", "row-major"});
  refused([](auto& d) { d.global[0] = 16, d.global[1] = 8, d.offset[0] = 8; }, {"begins at 8", "`offset`"});
  expect_refused(keelson_insitu_field_data(session, "w", nullptr), session, {"no field 'w'", "none exists yet"});
}

TEST(InsituRefusals, OfModels) {
  const OpenSession session;
  for (const char* name : {"u", "v"}) {
    const auto d = plain_field(name);
    KEELSON_WORKS(session, keelson_insitu_field(session, &d));
  }
  auto small = plain_field("small");
  small.extents[0] = 4;
  KEELSON_WORKS(session, keelson_insitu_field(session, &small));
  const auto refused = [&](auto change, const std::vector<std::string>& words) {
    keelson_insitu_model_desc m{};
    m.name = "net";
    m.layers = "conv 1 3";
    m.inputs = "u";
    change(m);
    expect_refused(keelson_insitu_model(session, &m), session, words);
  };
  refused([](auto& m) { m.name = nullptr; }, {"no name"});
  refused([](auto& m) { m.inputs = ""; }, {"no inputs"});
  refused([](auto& m) { m.inputs = "u w"; }, {"no field 'w'", "small, u, v"});
  refused([](auto& m) { m.output = "small"; }, {"'small' has 4x8", "16x8"});
  refused([](auto& m) { m.layers = nullptr; }, {"neither layers nor a checkpoint"});
  refused([](auto& m) { m.layers = "convolution 3"; }, {"'convolution'", "average_pool, batch_norm, conv"});
  refused([](auto& m) { m.layers = "conv"; }, {"conv FILTERS"});
  refused([](auto& m) { m.layers = "conv many"; }, {"'many'", "no number"});
  refused([](auto& m) { m.tile[0] = 32; }, {"32x8", "16x8", "smaller `tile`"});
  refused([](auto& m) { m.channel = 1; }, {"channel is 1", "KEELSON_INSITU_CLASS"});
  refused([](auto& m) { m.target = "v", m.loss = "hinge"; }, {"'hinge'", "cross_entropy"});
  refused([](auto& m) { m.target = "v", m.loss = "cross_entropy"; }, {"2 or more channels", "conv 2 1"});
  refused([](auto& m) { m.target = "v", m.loss = "cross_entropy 1 2 3", m.layers = "conv 2 1"; }, {"3 weights"});
  refused([](auto& m) { m.target = "v", m.reservoir = 2; }, {"reservoir of 2", "batches of 4"});
  refused([](auto& m) { m.target = "v", m.share = -1; }, {"share is -1"});
  refused([](auto& m) { m.layers = nullptr, m.checkpoint = "/no/such/run"; }, {"/no/such/run"});
  keelson_insitu_model_desc m{};
  m.name = "net";
  m.layers = "conv 1 3";
  m.inputs = "u";
  KEELSON_WORKS(session, keelson_insitu_model(session, &m));
  expect_refused(keelson_insitu_model(session, &m), session, {"'net' already"});
  expect_refused(keelson_insitu_infer(session, "ent"), session, {"no model 'ent'", "net"});
  expect_refused(keelson_insitu_infer(session, "net"), session, {"'u' has no array yet"});
  expect_refused(keelson_insitu_train(session, "net"), session, {"no target"});
  const float* scores = nullptr;
  std::int64_t count = 0;
  expect_refused(keelson_insitu_scores(session, "net", &scores, &count), session, {"no scores yet"});
  auto again = plain_field("u");
  expect_refused(keelson_insitu_field(session, &again), session, {"'net' uses it", "keelson_insitu_field_data"});
}

TEST(InsituRefusals, OfOneRankReachAll) {
  const OpenSession session;
  auto d = plain_field("u");
  const int last = size_of_comm(MPI_COMM_WORLD) - 1;
  if (rank_of(MPI_COMM_WORLD) == last) d.extents[0] = 4;
  KEELSON_WORKS(session, keelson_insitu_field(session, &d));
  keelson_insitu_model_desc m{};
  m.name = "net";
  m.layers = "conv 1 3";
  m.inputs = "u";
  m.tile[0] = 8;
  const std::vector<std::string> words = rank_of(MPI_COMM_WORLD) == last
                                             ? std::vector<std::string>{"tiles of 8x8"}
                                             : std::vector<std::string>{"rank " + std::to_string(last), "tiles of 8x8"};
  expect_refused(keelson_insitu_model(session, &m), session, words);
}

TEST(InsituRefusals, OfTargetsWithoutTheHaloThatTheLossCompares) {
  const OpenSession session;
  const auto u = plain_field("u"), t = plain_field("t");
  KEELSON_WORKS(session, keelson_insitu_field(session, &u));
  KEELSON_WORKS(session, keelson_insitu_field(session, &t));
  keelson_insitu_model_desc m{};
  m.name = "net";
  m.layers = "conv 1 3";
  m.inputs = "u", m.target = "t";
  m.halo[0] = 1;
  expect_refused(keelson_insitu_model(session, &m), session, {"halo of 1x0", "target 't'", "ghost cells", "mse"});
  m.layers = "conv 1 2.5";
  m.halo[0] = 0;
  expect_refused(keelson_insitu_model(session, &m), session, {"2.5", "conv 1 2.5", "whole number"});
}

TEST(InsituRefusals, OfSettingsThatDifferBetweenRanks) {
  const int size = size_of_comm(MPI_COMM_WORLD);
  if (size == 1) GTEST_SKIP() << "needs 2 ranks";
  const OpenSession session;
  const auto d = plain_field("u");
  KEELSON_WORKS(session, keelson_insitu_field(session, &d));
  keelson_insitu_model_desc m{};
  m.name = "net";
  m.layers = "conv 1 3";
  m.inputs = m.target = "u";
  m.seed = rank_of(MPI_COMM_WORLD) == size - 1 ? 8 : 7;
  expect_refused(keelson_insitu_model(session, &m), session,
                 {"rank " + std::to_string(size - 1), "seed is 8", "rank 0", "7", "describe it alike on all ranks"});
}

TEST(InsituRefusals, OfTilesAndNetworksThatDifferBetweenRanksThatTrain) {
  const int size = size_of_comm(MPI_COMM_WORLD), last = size - 1;
  if (size == 1) GTEST_SKIP() << "needs 2 ranks";
  const bool differs = rank_of(MPI_COMM_WORLD) == last;
  const OpenSession session;
  auto d = plain_field("u");
  d.ghosts[0] = d.ghosts[1] = 2;
  KEELSON_WORKS(session, keelson_insitu_field(session, &d));
  const std::string name = "rank " + std::to_string(last);
  const auto refused = [&](auto change, const std::vector<std::string>& words) {
    keelson_insitu_model_desc m{};
    m.name = "net";
    m.layers = "conv 2 3; relu; conv 1 3";
    m.inputs = m.target = "u";
    m.tile[0] = m.tile[1] = 4;
    if (differs) change(m);
    expect_refused(keelson_insitu_model(session, &m), session, words);
  };
  refused([](auto& m) { m.tile[0] = 8; }, {"tile is 8x4 on " + name, "4x4 on rank 0", "describe it alike"});
  refused([](auto& m) { m.tile[0] = 0; }, {"tile is 16x4 on " + name});
  refused([](auto& m) { m.halo[1] = 2; }, {"halo is 0x2 on " + name, "0x0 on rank 0"});
  refused([](auto& m) { m.layers = "conv 2 3; tanh; conv 1 3"; }, {"layers is conv 2 3; tanh; conv 1 3 on " + name});
  refused([](auto& m) { m.target = nullptr; }, {"target is not given on " + name});
}

}  // namespace
}  // namespace keelson::testing
