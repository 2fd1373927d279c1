#include <gtest/gtest.h>

#include <fmt/format.h>
#include <hdf5.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "engine/data/hdf5/hdf5.hpp"
#include "insitu/trigger.hpp"
#include "tests/insitu/simulation.hpp"

namespace keelson::testing {
namespace {

namespace fs = std::filesystem;

/// Whether this HDF5 lets the ranks write a file together.
#ifdef H5_HAVE_PARALLEL
constexpr bool parallel = true;
#else
constexpr bool parallel = false;
#endif

TEST(InsituTrigger, HasHysteresis) {
  insitu::Hysteresis once(0.8, 0.4, 0), often(0.8, 0.4, 2);
  const double scores[] = {0.5, 0.8, 0.6, 0.5, 0.4, 0.3, 0.7, 0.9, 0.4};
  const bool on[] = {false, true, true, true, true, false, false, true, true};
  const bool first[] = {false, true, false, false, false, false, false, true, false};
  const bool second[] = {false, true, false, true, false, false, false, true, false};
  for (std::size_t i = 0; i < std::size(scores); ++i) {
    EXPECT_EQ(once.act(scores[i]), first[i]) << i;
    EXPECT_EQ(often.act(scores[i]), second[i]) << i;
    EXPECT_EQ(once.on(), on[i]) << i;
  }
}

TEST(InsituTrigger, WritesSnapshotsOfTheWholeFieldWhileTheLargestScoreIsHigh) {
  const std::string folder = job_folder();
  const std::vector<std::int64_t> global{17, 6, 5};  // not alike on 2 and 4 ranks
  int steps = 0;
  const auto blob = [&](std::int64_t i, std::int64_t, std::int64_t) { return i == 16 ? 0.5 * steps : 0.0; };
  const auto number = [&](std::int64_t i, std::int64_t j, std::int64_t k) {
    return static_cast<double>((i * 6 + j) * 5 + k + 1000 * steps);
  };
  {
    const OpenSession session;
    // The score is the mean of u over the tile at the end, which only the last rank has.
    Part u(MPI_COMM_WORLD, "u", global, {.ghosts = 1}, blob);
    Part v(MPI_COMM_WORLD, "v", global, {.is_double = true, .ghosts = 2, .first_fastest = true}, number);
    for (Part* p : {&u, &v}) {
      const auto desc = p->desc();
      KEELSON_WORKS(session, keelson_insitu_field(session, &desc));
    }
    keelson_insitu_model_desc model{};
    model.name = "mean";
    model.layers = "scale 1";
    model.inputs = "u";
    model.tile[0] = 1;
    KEELSON_WORKS(session, keelson_insitu_model(session, &model));
    keelson_insitu_trigger_desc trigger{};
    trigger.name = "blob";
    trigger.model = "mean";
    trigger.on = 1, trigger.off = 0.6;
    trigger.fields = "u v";
    const std::string path = folder + "/blob";
    trigger.path = path.c_str();
    if (!parallel && size_of_comm(MPI_COMM_WORLD) > 1) {
      expect_refused(keelson_insitu_trigger(session, &trigger), session, {"HDF5 with MPI", "libhdf5-openmpi-dev"});
      return;
    }
    KEELSON_WORKS(session, keelson_insitu_trigger(session, &trigger));
    expect_refused(keelson_insitu_check(session, "blob", 0, 0, nullptr, nullptr), session, {"no scores yet"});
    for (steps = 1; steps < 4; ++steps) {  // scores 0.5, 1, 1.5
      u.fill(blob);
      v.fill(number);
      int on = -1;
      double score = 0;
      KEELSON_WORKS(session, keelson_insitu_infer(session, "mean"));
      KEELSON_WORKS(session, keelson_insitu_check(session, "blob", steps, 0.25 * steps, &on, &score));
      EXPECT_EQ(on, steps >= 2 ? 1 : 0);
      EXPECT_NEAR(score, 0.5 * steps, 1e-6);
    }
    trigger.name = "upside down";
    trigger.off = 2;
    expect_refused(keelson_insitu_trigger(session, &trigger), session, {"upside down", "off <= on"});
    trigger.name = "lost";
    trigger.off = 0, trigger.fields = "u w";
    expect_refused(keelson_insitu_trigger(session, &trigger), session, {"no field 'w'"});
  }
  if (rank_of(MPI_COMM_WORLD) != 0) return;
  EXPECT_FALSE(fs::exists(folder + "/blob-000001.h5"));
  EXPECT_FALSE(fs::exists(folder + "/blob-000003.h5"));
  const auto file = hdf5::File::open(folder + "/blob-000002.h5");
  EXPECT_EQ(file.attribute<std::int64_t>("/", "step"), 2);
  EXPECT_EQ(file.attribute<double>("/", "time"), 0.5);
  EXPECT_EQ(file.info("v").shape, global);
  EXPECT_EQ(file.info("v").type, hdf5::Type::f64);
  const auto values = file.read<double>("v");
  steps = 2;
  std::size_t at = 0;
  for (std::int64_t i = 0; i < 17; ++i)
    for (std::int64_t j = 0; j < 6; ++j)
      for (std::int64_t k = 0; k < 5; ++k) EXPECT_EQ(values[at++], number(i, j, k));
  EXPECT_EQ(file.read<float>("u").back(), 1.0f);
}

TEST(InsituTrigger, ASnapshotThatCannotBeWrittenFailsOnAllRanks) {
  if (!parallel && size_of_comm(MPI_COMM_WORLD) > 1) GTEST_SKIP() << "this HDF5 has no MPI";
  const OpenSession session;
  Part u(MPI_COMM_WORLD, "u", {16, 8}, {}, wave);
  const auto desc = u.desc();
  KEELSON_WORKS(session, keelson_insitu_field(session, &desc));
  EXPECT_EQ(keelson_insitu_snapshot(session, "u", "/no/such/folder/u.h5", 1, 0), KEELSON_INSITU_FAILURE);
  EXPECT_NE(std::string(keelson_insitu_error(session)).find("/no/such/folder/u.h5"), std::string::npos);
}

TEST(InsituTrigger, ASnapshotThatDoesNotFitOnTheDiskFailsOnAllRanksAndLeavesNothing) {
  if (!parallel && size_of_comm(MPI_COMM_WORLD) > 1) GTEST_SKIP() << "this HDF5 has no MPI";
  const OpenSession session;
  Part u(MPI_COMM_WORLD, "u", {256, 64}, {.is_double = true}, wave);
  const auto desc = u.desc();
  KEELSON_WORKS(session, keelson_insitu_field(session, &desc));
  const std::string path = job_folder() + "/large.h5";
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{.rlim_cur = 60000, .rlim_max = before.rlim_max};  // of 131 kB
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const int status = keelson_insitu_snapshot(session, "u", path.c_str(), 1, 0);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status, KEELSON_INSITU_FAILURE);
  EXPECT_NE(std::string(keelson_insitu_error(session)).find("large.h5"), std::string::npos);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(fs::exists(path + ".partial"));
  KEELSON_WORKS(session, keelson_insitu_snapshot(session, "u", path.c_str(), 1, 0));  // then there is room
}

TEST(InsituTrigger, SnapshotsNeedToKnowWhereTheRanksPartsLie) {
  const int size = size_of_comm(MPI_COMM_WORLD);
  if (size == 1 || !parallel) GTEST_SKIP() << "needs 2 ranks, and an HDF5 with MPI";
  const OpenSession session;
  Part u(MPI_COMM_WORLD, "u", {16, 8}, {}, wave);
  auto desc = u.desc();
  desc.global[0] = desc.global[1] = desc.offset[0] = 0;
  KEELSON_WORKS(session, keelson_insitu_field(session, &desc));
  const std::string path = job_folder() + "/part.h5";
  expect_refused(keelson_insitu_snapshot(session, "u", path.c_str(), 1, 0), session,
                 {"field 'u'", "`global`", "`offset`"});
  desc = u.desc();
  desc.global[0] += rank_of(MPI_COMM_WORLD);
  KEELSON_WORKS(session, keelson_insitu_field(session, &desc));
  expect_refused(keelson_insitu_snapshot(session, "u", path.c_str(), 1, 0), session, {"global of 'u'", "rank 0"});
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(fs::exists(path + ".partial"));
  // As many cells as the whole field has, but the last rank has those of the rank before it.
  desc = u.desc();
  const auto rows = 16 / size;
  if (rank_of(MPI_COMM_WORLD) == size - 1) desc.offset[0] -= 1;
  KEELSON_WORKS(session, keelson_insitu_field(session, &desc));
  expect_refused(keelson_insitu_snapshot(session, "u", path.c_str(), 1, 0), session,
                 {"field 'u'", fmt::format("rank {} has cells [{}:{}, 0:8]", size - 2, 16 - 2 * rows, 16 - rows),
                  fmt::format("rank {} has cells [{}:15, 0:8]", size - 1, 15 - rows), "overlap", "`offset`"});
  // A cell that no rank has.
  desc = u.desc();
  if (rank_of(MPI_COMM_WORLD) == 1) desc.extents[0] -= 1;
  KEELSON_WORKS(session, keelson_insitu_field(session, &desc));
  expect_refused(keelson_insitu_snapshot(session, "u", path.c_str(), 1, 0), session,
                 {"field 'u'", fmt::format("no rank has the cell ({}, 0)", 2 * rows - 1),
                  fmt::format("rank 1 has cells [{}:{}, 0:8]", rows, 2 * rows - 1)});
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(fs::exists(path + ".partial"));
  // A field that one rank does not know.
  if (rank_of(MPI_COMM_WORLD) == 0) {
    Part w(MPI_COMM_WORLD, "w", {16, 8}, {}, wave);
    const auto other = w.desc();
    KEELSON_WORKS(session, keelson_insitu_field(session, &other));
  }
  expect_refused(keelson_insitu_snapshot(session, "w", path.c_str(), 1, 0), session, {"no field 'w'", "rank 1"});
}

}  // namespace
}  // namespace keelson::testing
