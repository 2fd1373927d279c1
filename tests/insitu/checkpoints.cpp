#include <gtest/gtest.h>

#include <cstring>

#include "backends/registry.hpp"
#include "engine/execute/executor.hpp"
#include "engine/graph/topology.hpp"
#include "engine/train/checkpoint/checkpoint.hpp"
#include "nets/cosmoflow/cosmoflow.hpp"
#include "nets/registry.hpp"
#include "tests/insitu/simulation.hpp"

namespace keelson::testing {
namespace {

/// A checkpoint as the programs write them, and what its network makes of a plain input.
struct Stored {
  std::string path;
  std::vector<float> result;
};

Stored store(const Graph& graph, const std::string& network, std::map<std::string, std::string> config,
             const std::vector<float>& x) {
  const OpenSession starts_kokkos(MPI_COMM_SELF);
  const auto context = backends::make_context();
  Parameters parameters(graph, *context, 7);
  Executor executor(graph, parameters, {.batch = 1, .training = false});
  context->write_plain(executor.input("x"), x.data());
  executor.forward({});
  const Tensor output = executor.output("prediction");
  Stored s{.path = job_folder() + "/" + network + std::to_string(rank_of(MPI_COMM_WORLD)) + ".h5",
           .result = std::vector<float>(static_cast<std::size_t>(output.elements()))};
  context->read_plain(output, s.result.data());
  RunState state;
  state.network = network;
  state.config = std::move(config);
  state.topology = Topology(graph).to_text();
  write_checkpoint(s.path, copy_run(state, parameters, {}));
  return s;
}

void finds_the_class_of_each_cell(const nets::RegisteredNetwork& network) {
  const std::int64_t rows = network.tiny_sample[1], columns = network.tiny_sample[2], cells = rows * columns;
  std::vector<float> x;
  for (const double shift : {0.0, 5.0})
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) x.push_back(static_cast<float>((wave(i, j, 0) + shift - 1) / 4));
  auto config = network.tiny_settings.values();
  config["ranges"] = "1:5,1:5";
  const auto stored =
      store(network.make(network.tiny_settings, network.tiny_sample), network.stored_name, std::move(config), x);
  const OpenSession session(MPI_COMM_SELF);
  Part a(MPI_COMM_SELF, "a", {rows, columns}, {.is_double = true}, wave),
      c(MPI_COMM_SELF, "c", {rows, columns}, {}, wave);
  Part b(MPI_COMM_SELF, "b", {rows, columns}, {}, [](auto i, auto j, auto k) { return wave(i, j, k) + 5; });
  for (Part* p : {&a, &b, &c}) {
    const auto desc = p->desc();
    KEELSON_WORKS(session, keelson_insitu_field(session, &desc));
  }
  keelson_insitu_model_desc model{};
  model.name = "weather";
  model.checkpoint = stored.path.c_str();
  model.inputs = "a";
  expect_refused(keelson_insitu_model(session, &model), session, {"2 channels", "1 fields", "`inputs`"});
  model.inputs = "a b";
  model.output = "c";
  model.channel = KEELSON_INSITU_CLASS;
  KEELSON_WORKS(session, keelson_insitu_model(session, &model));
  KEELSON_WORKS(session, keelson_insitu_infer(session, "weather"));
  const auto found = c.interior();
  for (std::size_t i = 0; i < static_cast<std::size_t>(cells); ++i) {
    const auto& r = stored.result;
    const float first = r[i], second = r[i + static_cast<std::size_t>(cells)],
                third = r[i + 2 * static_cast<std::size_t>(cells)];
    const int best = first >= second && first >= third ? 0 : second >= third ? 1 : 2;
    EXPECT_EQ(found[i], best) << i;
  }
  model.name = "trained";
  model.output = nullptr;
  model.target = "c";
  expect_refused(keelson_insitu_model(session, &model), session, {network.stored_name, "only be used for inference"});
}

TEST(InsituCheckpoint, OfKeelsonClimateFindsTheClassOfEachCell) {
  for (const auto& network : nets::networks_of_family("climate-")) finds_the_class_of_each_cell(network);
}

TEST(InsituCheckpoint, OfKeelsonCosmoflowMakesAScorePerTile) {
  const nets::CosmoFlowOptions o{.size = 32, .channels = 1, .widths = {{"conv1", 4}, {"dense1", 8}, {"dense2", 8}}};
  const auto count = [](std::int64_t i, std::int64_t j, std::int64_t k) {
    return static_cast<double>(i * j % 7 + k % 3);
  };
  std::vector<float> x;
  for (int i = 0; i < 32; ++i)
    for (int j = 0; j < 32; ++j)
      for (int k = 0; k < 32; ++k) x.push_back(static_cast<float>(std::log1p(count(i, j, k))));
  const auto stored =
      store(nets::cosmoflow_mlperf(o), "cosmoflow-mlperf", {{"net", "mlperf"}, {"normalise", "log1p"}}, x);
  const OpenSession session(MPI_COMM_SELF);
  Part u(MPI_COMM_SELF, "u", {32, 32, 32}, {.is_double = true}, count);
  const auto desc = u.desc();
  KEELSON_WORKS(session, keelson_insitu_field(session, &desc));
  keelson_insitu_model_desc model{};
  model.name = "universe";
  model.checkpoint = stored.path.c_str();
  model.inputs = "u";
  model.channel = 2;
  KEELSON_WORKS(session, keelson_insitu_model(session, &model));
  KEELSON_WORKS(session, keelson_insitu_infer(session, "universe"));
  const float* scores = nullptr;
  std::int64_t tiles = 0;
  KEELSON_WORKS(session, keelson_insitu_scores(session, "universe", &scores, &tiles));
  ASSERT_EQ(tiles, 1);
  EXPECT_NEAR(scores[0], stored.result[2], 1e-5);
}

}  // namespace
}  // namespace keelson::testing
