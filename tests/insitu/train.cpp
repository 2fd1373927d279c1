#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <set>

#include "engine/train/checkpoint/checkpoint_reader.hpp"
#include "insitu/reservoir.hpp"
#include "tests/insitu/simulation.hpp"

namespace keelson::testing {
namespace {

std::string path_of(const std::string& name) { return job_folder() + "/" + name; }

/// What is to be learned: where the field is steep.
double steep(std::int64_t i, std::int64_t j, std::int64_t k) { return std::abs(wave(i + 1, j, k) - wave(i - 1, j, k)); }
double is_steep(std::int64_t i, std::int64_t j, std::int64_t k) { return steep(i, j, k) > 0.35 ? 1 : 0; }

keelson_insitu_model_desc steepness(const char* name) {
  keelson_insitu_model_desc m{};
  m.name = name;
  m.layers = "batch_norm; conv 8 3; relu; conv 2 3";
  m.inputs = "u";
  m.output = "v";
  m.channel = KEELSON_INSITU_CLASS;
  m.target = "t";
  m.loss = "cross_entropy";
  m.tile[0] = 8, m.tile[1] = 8;
  m.halo[0] = 2, m.halo[1] = 2;
  m.learning_rate = 0.01;
  m.seed = 5;
  return m;
}

/// A simulation of 32 x 32 cells that moves.
struct Moving {
  explicit Moving(MPI_Comm comm) : session(comm) {
    for (Part* p : {&u, &v, &t}) {
      const auto desc = p->desc();
      KEELSON_WORKS(session, keelson_insitu_field(session, &desc));
    }
  }
  void move() {
    ++step;
    u.fill([&](auto i, auto j, auto) { return wave(i, j, 3 * step); });
    t.fill([&](auto i, auto j, auto) { return is_steep(i, j, 3 * step); });
  }
  double accuracy() {
    KEELSON_WORKS(session, keelson_insitu_infer(session, "net"));
    return 1 - largest_share(v.interior(), t.interior());
  }
  static double largest_share(const std::vector<double>& a, const std::vector<double>& b) {
    double wrong = 0;
    for (std::size_t i = 0; i < a.size(); ++i) wrong += a[i] != b[i];
    return wrong / static_cast<double>(a.size());
  }

  int step = 0;
  OpenSession session;
  const Arrangement arrangement{.is_double = true, .ghosts = 2};
  Part u{MPI_COMM_WORLD, "u", {32, 32}, arrangement, wave}, v{MPI_COMM_WORLD, "v", {32, 32}, arrangement, wave},
      t{MPI_COMM_WORLD, "t", {32, 32}, arrangement, is_steep};
};

TEST(InsituTrain, LearnsWhileTheSimulationRunsAndRepeatsItsBits) {
  std::vector<double> outputs[2];
  const std::string path = path_of("steepness.h5");
  for (auto& output : outputs) {
    Moving simulation(MPI_COMM_WORLD);
    auto model = steepness("net");
    model.steps = 20;
    model.save = path.c_str();
    KEELSON_WORKS(simulation.session, keelson_insitu_model(simulation.session, &model));
    for (int i = 0; i < 15; ++i) {
      simulation.move();
      KEELSON_WORKS(simulation.session, keelson_insitu_train(simulation.session, "net"));
      KEELSON_WORKS(simulation.session, keelson_insitu_step(simulation.session, i));
    }
    simulation.move();
    EXPECT_GT(simulation.accuracy(), 0.93);
    output = simulation.v.interior();
    keelson_insitu_times totals;
    KEELSON_WORKS(simulation.session, keelson_insitu_totals(simulation.session, &totals));
    EXPECT_EQ(totals.train_steps, 300);
    EXPECT_GT(totals.train, 0);
    EXPECT_LT(totals.loss, 0.2);
  }
  EXPECT_EQ(outputs[0], outputs[1]);

  // Training goes on with the checkpoint of the end: the moments are there, so the first steps do no harm.
  {
    Moving simulation(MPI_COMM_WORLD);
    auto model = steepness("net");
    model.layers = nullptr;
    model.checkpoint = path.c_str();
    model.steps = 2;
    KEELSON_WORKS(simulation.session, keelson_insitu_model(simulation.session, &model));
    for (int i = 0; i < 16; ++i) simulation.move();
    KEELSON_WORKS(simulation.session, keelson_insitu_train(simulation.session, "net"));
    EXPECT_GT(simulation.accuracy(), 0.93);
    const std::string next = path_of("more.h5");
    KEELSON_WORKS(simulation.session, keelson_insitu_save(simulation.session, "net", next.c_str()));
    EXPECT_EQ(CheckpointReader(next, false, nullptr).state().step, 302);
  }

  // The checkpoint of the end has the same weights.
  Moving simulation(MPI_COMM_WORLD);
  keelson_insitu_model_desc stored = steepness("net");
  stored.layers = nullptr, stored.target = nullptr, stored.loss = nullptr;
  stored.checkpoint = path.c_str();
  KEELSON_WORKS(simulation.session, keelson_insitu_model(simulation.session, &stored));
  for (int i = 0; i < 16; ++i) simulation.move();
  simulation.accuracy();
  EXPECT_EQ(simulation.v.interior(), outputs[0]);
}

TEST(InsituTrain, RanksWithDifferentTimeMakeEquallyManySteps) {
  Moving simulation(MPI_COMM_WORLD);
  auto model = steepness("net");
  model.share = 0.5;
  KEELSON_WORKS(simulation.session, keelson_insitu_model(simulation.session, &model));
  int reports = 0;
  KEELSON_WORKS(
      simulation.session,
      keelson_insitu_on_report(
          simulation.session, [](const keelson_insitu_times*, void* n) { ++*static_cast<int*>(n); }, &reports));
  for (int i = 0; i < 10; ++i) {
    simulation.move();
    usleep(static_cast<unsigned>(2000 * (1 + rank_of(MPI_COMM_WORLD))));  // the last rank has the most time
    KEELSON_WORKS(simulation.session, keelson_insitu_train(simulation.session, "net"));
    KEELSON_WORKS(simulation.session, keelson_insitu_step(simulation.session, i));
  }
  EXPECT_EQ(reports, 10);
  keelson_insitu_times totals;
  KEELSON_WORKS(simulation.session, keelson_insitu_totals(simulation.session, &totals));
  EXPECT_EQ(totals.step, 10);
  EXPECT_GE(totals.train_steps, 1);
  std::int64_t ends[2] = {totals.train_steps, -totals.train_steps};
  MPI_Allreduce(MPI_IN_PLACE, ends, 2, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
  EXPECT_EQ(ends[0], -ends[1]);
}

TEST(InsituTrain, LearnsValuesAndRefusesWhatIsNotFinite) {
  Moving simulation(MPI_COMM_WORLD);
  auto model = steepness("net");
  model.layers = "conv 8 3; tanh; conv 1 3";
  model.loss = "mse";
  model.channel = 0;
  model.steps = 30;
  KEELSON_WORKS(simulation.session, keelson_insitu_model(simulation.session, &model));
  for (int i = 0; i < 10; ++i) {
    simulation.move();
    simulation.t.fill([&](auto x, auto y, auto) { return 2 * wave(x, y, 3 * simulation.step); });
    KEELSON_WORKS(simulation.session, keelson_insitu_train(simulation.session, "net"));
    KEELSON_WORKS(simulation.session, keelson_insitu_step(simulation.session, i));
  }
  keelson_insitu_times totals;
  KEELSON_WORKS(simulation.session, keelson_insitu_totals(simulation.session, &totals));
  EXPECT_LT(totals.loss, 0.03);  // the target's mean square is 1
  // All tiles of a reservoir that is replaced: one of 64 tiles is drawn at last.
  simulation.u.fill([](auto...) { return std::nan(""); });
  int status = KEELSON_INSITU_OK;
  for (int i = 0; i < 20 && status == KEELSON_INSITU_OK; ++i) status = keelson_insitu_train(simulation.session, "net");
  EXPECT_EQ(status, KEELSON_INSITU_FAILURE);
  EXPECT_NE(std::string(keelson_insitu_error(simulation.session)).find("the loss of training step"), std::string::npos);
}

TEST(InsituTrain, TheReservoirIsAUniformSampleOfAllThatWasOffered) {
  std::vector<int> kept(100, 0);
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    insitu::Reservoir reservoir(10, seed, 1);
    std::vector<int> slots(10, -1);
    for (int i = 0; i < 100; ++i) {
      const auto slot = reservoir.offer();
      ASSERT_LT(slot, 10);
      if (slot >= 0) slots[static_cast<std::size_t>(slot)] = i;
      EXPECT_EQ(reservoir.size(), std::min(i + 1, 10));
    }
    EXPECT_EQ(std::set<int>(slots.begin(), slots.end()).size(), 10u);
    for (const int i : slots) ++kept[static_cast<std::size_t>(i)];
  }
  for (const int n : kept) EXPECT_NEAR(n, 40, 24);  // four standard deviations
  int late = 0;
  for (int i = 50; i < 100; ++i) late += kept[static_cast<std::size_t>(i)];
  EXPECT_NEAR(late, 2000, 130);
}

TEST(InsituTrain, TheLogHasALineForEachStepAndTheTotals) {
  const std::string path = path_of("insitu.log");
  {
    const OpenSession session(MPI_COMM_WORLD, path);
    for (int i = 0; i < 3; ++i) KEELSON_WORKS(session, keelson_insitu_step(session, 10 * i));
  }
  if (rank_of(MPI_COMM_WORLD) != 0) return;
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[1].find("{\"step\": 10, \"step_seconds\": "), 0u) << lines[1];
  EXPECT_NE(lines[1].find("\"loss\": null}"), std::string::npos);
  EXPECT_EQ(lines[3].find("{\"steps\": 3, "), 0u) << lines[3];
}

}  // namespace
}  // namespace keelson::testing
