#include <gtest/gtest.h>

#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
#include "engine/layers/layers.hpp"
#include "engine/train/checkpoint/checkpoint.hpp"
#include "engine/train/checkpoint/run_checkpoints.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/contexts.hpp"
#include "tests/train/support.hpp"

/// Parameters in parts over ranks: copies of the whole, and checkpoints.
namespace keelson::testing {
namespace {

/// hidden/weights: (9, 3); last/weights: (2, 9).
Graph hidden_and_last() {
  Graph g;
  mse(dense(dense(g.input("x", {3}), 9, "hidden"), 2, "last"), g.input("y", {2}));
  return g;
}

/// hidden/weights: rows over pairs of ranks, twice with four ranks; last/weights: columns, on the last two ranks alone;
/// last/bias: on the last rank alone; hidden/bias: whole.
void cut_over_ranks(Parameters& parameters) {
  const int pair = world().rank() % 2, size = world().size();
  parameters.set_part("hidden/weights", pair == 0 ? Parameter::Part{0, 0, 5} : Parameter::Part{0, 5, 4});
  const bool has = world().rank() >= size - 2;
  parameters.set_part("last/weights", !has        ? Parameter::Part{}
                                      : pair == 0 ? Parameter::Part{1, 0, 2}
                                                  : Parameter::Part{1, 2, 7});
  parameters.set_part("last/bias", {0, 0, world().rank() == size - 1 ? 2 : 0});
}

void fill_parameters(Parameters& parameters) {
  for (Parameter& p : parameters.all()) {
    const auto count = static_cast<std::size_t>(p.shape.elements());
    std::vector<float> moment(count);
    for (std::size_t i = 0; i < count; ++i) moment[i] = static_cast<float>(i) + 0.25f;
    if (!p.value) parameters.materialise(p, Layout::plain(p.held_shape()));
    if (p.value) parameters.add_moments(p, 1);
    parameters.set(p, moment, 0);
  }
}

TEST_F(MpiTest, GathersParametersInParts) {
  KEELSON_NEED_RANKS(2);
  const Graph graph = hidden_and_last();
  Context& c = context(network_contexts().back());
  Parameters whole(graph, c, 5), parts(graph, c, 5);
  cut_over_ranks(parts);
  fill_parameters(parts);
  fill_parameters(whole);
  for (const Parameter& p : parts.all())
    for (const int which : {-1, 0}) {
      const auto all = parts.gather(p, which, &world());
      EXPECT_EQ(all, rank() == 0 ? whole.get(whole.at(p.name), which) : std::vector<float>()) << p.name << " " << which;
    }
}

TEST_F(MpiTest, RefusesPartsThatAreNotTheWhole) {
  KEELSON_NEED_RANKS(2);
  const Graph graph = hidden_and_last();
  Parameters missing(graph, context(network_contexts().back()), 5), twice(graph, missing.context(), 5);
  missing.set_part("hidden/bias", rank() == 0 ? Parameter::Part{0, 0, 4} : Parameter::Part{0, 5, 4});
  EXPECT_THROW(missing.gather(missing.at("hidden/bias"), -1, &world()), Error);
  twice.set_part("hidden/bias", rank() == 0 ? Parameter::Part{0, 0, 6} : Parameter::Part{0, 5, 4});
  EXPECT_THROW(twice.gather(twice.at("hidden/bias"), -1, &world()), Error);
}

/// Written with parts, read on one rank; and the other way round.
TEST_F(MpiTest, CheckpointsOfPartsAreThoseOfTheWhole) {
  KEELSON_NEED_RANKS(2);
  const Graph graph = hidden_and_last();
  Context& c = context(network_contexts().back());
  Parameters parts(graph, c, 5), whole(graph, c, 5);
  cut_over_ranks(parts);
  fill_parameters(parts);
  fill_parameters(whole);
  const Folder folder;
  const CheckpointOptions options{.folder = world().allgather(folder.path().string())[0]};
  const Observers observers;
  RunCheckpoints checkpoints(options, &world(), observers);
  RunState state;
  state.step = 3;
  checkpoints.copy(state, parts, {"momentum"}, false, false);
  checkpoints.start_writing(state, false);
  checkpoints.finish();

  const auto path = find_checkpoint(options.folder, false);
  Parameters loaded(graph, c, 8);
  load_checkpoint(path, "", loaded, std::vector<std::string>{"momentum"}, nullptr);
  for (const Parameter& p : whole.all())
    for (const int which : {-1, 0})
      EXPECT_EQ(loaded.get(loaded.at(p.name), which), whole.get(p, which)) << p.name << " " << which;

  Parameters other_parts(graph, c, 8);
  cut_over_ranks(other_parts);
  load_checkpoint(path, "", other_parts, std::vector<std::string>{"momentum"}, &world());
  for (const Parameter& p : other_parts.all())
    for (const int which : {-1, 0}) {
      const auto all = other_parts.gather(p, which, &world());
      EXPECT_EQ(all, rank() == 0 ? whole.get(whole.at(p.name), which) : std::vector<float>()) << p.name << " " << which;
    }
}

}  // namespace
}  // namespace keelson::testing
