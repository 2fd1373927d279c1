#include "engine/train/checkpoint/detail/valid_state.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "engine/data/hdf5/hdf5.hpp"
#include "engine/optim/adam.hpp"
#include "engine/train/checkpoint/checkpoint_reader.hpp"
#include "engine/train/checkpoint/detail/checkpoint_layout.hpp"
#include "tests/support/contexts.hpp"
#include "tests/train/support.hpp"

/// Checkpoints whose checksums are right and whose values no run can have.
namespace keelson::testing {
namespace {

constexpr auto lowest = std::numeric_limits<std::int64_t>::min(), highest = std::numeric_limits<std::int64_t>::max();
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Gives the input x another shape.
void shape_of_x(RunState& s, const std::string& shape) {
  const auto begin = s.topology.find("\"shape\":") + 8, end = s.topology.find(']', begin);
  s.topology.replace(begin, end + 1 - begin, shape);
}

/// A run that has trained a network with Adam.
struct SmallRun {
  SmallRun()
      : parameters(graph_of(), context(contexts().back()), 3), executor(graph, parameters, options(&optimizer)) {}

  static Graph graph_of() {
    Graph g;
    const auto x = g.input("x", {3}), y = g.input("y", {2});
    mse(dense(x, 2, "out"), y);
    return g;
  }
  static PlanOptions options(const Optimizer* o) { return {.batch = 2, .optimizer = o}; }

  CheckpointCopy copy() const {
    RunState s;
    s.network = "small";
    s.epoch = 3;
    s.step = 77;
    s.step_in_epoch = 5;
    s.train_samples = 64;
    s.part_step = 2;
    s.part_sample = 8;
    s.part_position = 0.25;
    s.observed = {{"sum", {1.5}}};
    s.topology = Topology(graph).to_text();
    return copy_run(s, parameters, moment_names(optimizer));
  }
  /// What reading all of this checkpoint says.
  std::string message(const CheckpointCopy& forged) {
    try {
      CheckpointReader(&forged, "c.h5", nullptr).load("small", parameters, moment_names(optimizer));
    } catch (const InputError& error) {
      return error.what();
    }
    return "(accepted)";
  }

  Graph graph = graph_of();
  Adam optimizer;
  Parameters parameters;
  Executor executor;
};

TEST(ValidState, FieldsHaveRanges) {
  SmallRun run;
  ASSERT_EQ(run.message(run.copy()), "(accepted)");
  const auto count = [](std::int64_t RunState::* field, std::int64_t value) {
    return [=](RunState& s) { s.*field = value; };
  };
  const auto number = [](double RunState::* field, double value) { return [=](RunState& s) { s.*field = value; }; };
  using S = RunState;
  const std::pair<std::function<void(S&)>, std::string> forgeries[] = {
      {count(&S::epoch, lowest), "c.h5: epoch is -9223372036854775808, expected 0 to 9007199254740992; no run has"},
      {count(&S::epoch, highest), "epoch is 9223372036854775807, expected 0 to"},
      {count(&S::step, -1), "step is -1, expected 0 to"},
      {count(&S::step_in_epoch, highest), "step_in_epoch is 9223372036854775807"},
      {count(&S::samples, -1), "samples is -1"},
      {count(&S::global_batch, std::int64_t{1} << 31), "global_batch is 2147483648, expected 0 to 2147483647"},
      {count(&S::train_samples, lowest), "train_samples is -9223372036854775808"},
      {count(&S::world_size, 0), "world_size is 0, expected 1 to"},
      {number(&S::seconds, NAN), "seconds is nan, expected 0 to"},
      {number(&S::seconds, -1), "seconds is -1, expected 0 to"},
      {number(&S::loss_sum, infinity), "loss_sum is inf"},
      {number(&S::loss_samples, -1), "loss_samples is -1"},
      {count(&S::epoch_samples, 65), "epoch_samples is 65, expected 0 to 64"},
      {count(&S::best_epoch, 4), "best_epoch is 4, expected -1 to 3"},
      {count(&S::best_epoch, -2), "best_epoch is -2, expected -1 to 3"},
      {number(&S::loss_scale, 0), "gradient_scale is 0, expected 1.17"},
      {number(&S::loss_scale, 1e300), "gradient_scale is 1e+300"},
      {count(&S::good_steps, std::int64_t{1} << 32), "good_steps is 4294967296"},
      {count(&S::skipped_steps, -1), "skipped_steps is -1"},
      {count(&S::part_step, 6), "part_step is 6, expected 0 to 5"},
      {count(&S::part_sample, -1), "part_sample is -1, expected 0 to 64"},
      {count(&S::part_sample, 65), "part_sample is 65, expected 0 to 64"},
      {number(&S::part_position, NAN), "part_position is nan, expected 0 to 1"},
      {number(&S::part_position, -1), "part_position is -1, expected 0 to 1"},
      {[](S& s) { s.observed["sum"] = {1, NAN}; }, "sum is nan"},
      {[](S& s) { s.topology = "no topology"; }, "c.h5: /topology: the text is no topology"},
      {[](S& s) { shape_of_x(s, "[1,1,1,1,1,1,1]"); }, "the shape [1,1,1,1,1,1,1]"},
      {[](S& s) { shape_of_x(s, "[-3]"); }, "the shape [-3], expected at most 6"},
  };
  for (const auto& [forge, expected] : forgeries) {
    auto copy = run.copy();
    forge(copy.state);
    const auto said = run.message(copy);
    EXPECT_NE(said.find(expected), std::string::npos) << "expected: " << expected << "\nfound: " << said;
    EXPECT_EQ(said.find("internal error"), std::string::npos) << said;
  }
}

/// Without part_step the checksum leaves these fields out.
TEST(ValidState, ThePartOfAnEpochHasRanges) {
  SmallRun run;
  const Folder folder;
  auto copy = run.copy();
  copy.state.part_step = copy.state.part_sample = 0;
  copy.state.part_position = 0;
  const auto said = [&](std::int64_t step, std::int64_t sample, double position) {
    const auto path = (folder / "c.h5").string();
    auto file = hdf5::File::create(path);
    detail::write_contents(file, copy);
    file.set_attribute("/", "part_step", step);
    file.set_attribute("/", "part_sample", sample);
    file.set_attribute("/", "part_position", position);
    file.close();
    try {
      CheckpointReader(path, false, nullptr);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("(accepted)");
  };
  EXPECT_EQ(said(0, 0, 0), "(accepted)");
  EXPECT_NE(said(-1, 0, 0).find("part_step is -1, expected 0 to 5"), std::string::npos);
  EXPECT_NE(said(0, -1, 0).find("part_sample is -1, expected 0 to 0"), std::string::npos);
  EXPECT_NE(said(0, 0, NAN).find("part_position is nan, expected 0 to 0"), std::string::npos);
}

TEST(ValidState, ArraysHaveRanges) {
  SmallRun run;
  const auto forged = [&](const std::string& array, float value) {
    auto copy = run.copy();
    for (auto& a : copy.arrays)
      if (a.path == array) a.values.at(1) = value;
    return run.message(copy);
  };
  const std::string m = "/optimizer/m/out/weights", v = "/optimizer/v/out/weights", w = "/parameters/out/weights";
  EXPECT_EQ(forged(m, 3e38F),
            "c.h5: " + m +
                ", element 1 is 3e+38, expected -1e+36 to 1e+36; no run has written this: use an earlier "
                "checkpoint or best.h5 of the run");
  EXPECT_NE(forged(m, NAN).find(m + ", element 1 is nan"), std::string::npos);
  EXPECT_NE(forged(w, -INFINITY).find(w + ", element 1 is -inf"), std::string::npos);
  EXPECT_NE(forged(v, -1e-6F).find(v + ", element 1 is -1e-06, expected 0 to 1e+36"), std::string::npos);
  EXPECT_EQ(forged(v, 1e30F), "(accepted)");
  EXPECT_EQ(forged(m, -1e30F), "(accepted)");
  EXPECT_EQ(forged("/parameters/out/bias", 1e30F), "(accepted)");
}

TEST(ValidState, ObservedValuesHaveNamesOfTheirOwn) {
  EXPECT_NO_THROW(detail::require_own_name("target_sum", "c.h5"));
  for (const char* name : {"epoch", "part_step", "config", "network"})
    EXPECT_THROW(detail::require_own_name(name, "c.h5"), InputError) << name;
}

}  // namespace
}  // namespace keelson::testing
