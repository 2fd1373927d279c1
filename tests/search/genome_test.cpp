#include "search/genome/genome.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/base/error.hpp"
#include "engine/optim/kfac.hpp"
#include "search/breed/breed.hpp"
#include "search/genome/design.hpp"
#include "tests/search/spaces.hpp"

namespace keelson::search {
namespace {

std::vector<Space> all_spaces() {
  return {table_space(), image_space(), Space::of({2, 9, 7, 8}, 4, false), Space::of({12, 5}, 2, true),
          Space::of({1, 1, 1}, 2, true)};
}

Draws draws_of(std::uint64_t seed) { return Draws({seed, philox::stream_of("test"), 0}); }

TEST(Genome, TextIsExact) {
  Draws draws = draws_of(1);
  for (const Space& space : all_spaces())
    for (int i = 0; i < 50; ++i) {
      const Genome genome = random_genome(space, draws);
      EXPECT_EQ(parse_genome(to_json(genome, space), space), genome);
    }
}

TEST(Genome, RefusesWhatItDoesNotKnow) {
  const Space space = table_space();
  Draws draws = draws_of(2);
  std::string text = to_json(random_genome(space, draws), space);
  EXPECT_THROW(parse_genome("{}", space), InputError);
  EXPECT_THROW(parse_genome("[", space), InputError);
  text.replace(text.find("\"optimizer\""), 11, "\"optimiser\"");
  try {
    parse_genome(text, space);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("\"optimizer\""), std::string::npos) << e.what();
  }
}

/// Every genome is repaired to one that can be built, and repairing it again changes nothing.
TEST(Genome, IsRepairedToANetwork) {
  Draws draws = draws_of(3);
  for (const Space& space : all_spaces())
    for (int i = 0; i < 200; ++i) {
      const Genome genome = repaired(random_genome(space, draws), space);
      EXPECT_EQ(repaired(genome, space), genome) << to_json(genome, space);
      const Graph graph = network_of(genome, space);
      EXPECT_EQ(graph.parameter_count(), cost_of(genome, space).parameters);
      EXPECT_GE(graph.loss(), 0);
    }
}

Stage stage_of(const Space& space, const std::string& kind, const std::string& hidden = "16") {
  Stage s{};
  s[0] = space.stage[0].index_of(kind);
  s[static_cast<std::size_t>(StageGene::hidden)] = space.stage.back().index_of(hidden);
  return s;
}

/// 12 steps of 5 features -> conv to 4 filters -> 12 rows of 5 x 4 -> lstm -> 12 x 16 -> conv -> 12 rows of 16 x 4 ->
/// gru -> the last step's 32.
TEST(Genome, RecurrentStages) {
  const Space space = Space::of({12, 5}, 2, true);
  const Genome genome{
      {stage_of(space, "conv"), stage_of(space, "lstm"), stage_of(space, "conv"), stage_of(space, "gru", "32")},
      {},
      {}};
  EXPECT_EQ(repaired(genome, space), genome);
  const Graph graph = network_of(genome, space);
  const auto shape_of = [&](const std::string& name) {
    const auto node = std::ranges::find_if(graph.nodes(), [&](const auto& n) { return n.name == name; });
    return node == graph.nodes().end() ? Shape{} : node->shape.shape;
  };
  EXPECT_EQ(shape_of("stage2_rows"), (Shape{12, 20}));
  EXPECT_EQ(shape_of("stage2_lstm1"), (Shape{12, 16}));
  EXPECT_EQ(shape_of("stage3_image"), (Shape{1, 1, 12, 16}));
  EXPECT_EQ(shape_of("stage4_gru1"), (Shape{12, 32}));
  EXPECT_EQ(shape_of("last"), (Shape{1, 32}));
  for (const auto& node : graph.nodes()) EXPECT_FALSE(node.is_state) << node.name;
  const Cost cost = cost_of(genome, space);
  const std::int64_t lstm = 4 * 16 * (20 + 16), gru = 3 * 32 * (64 + 32), convs = 4 + 4, output = 2 * 32;
  EXPECT_EQ(cost.parameters, lstm + 4 * 16 + gru + 3 * 32 + 32 + convs + 2 * 4 + output + 2);
  EXPECT_DOUBLE_EQ(cost.flops, 2.0 * (12 * (lstm + gru) + 4 * 60 + 4 * 12 * 16 + output));
  // Images have no recurrent stages.
  EXPECT_THROW(image_space().restrict(R"({"stages": {"kind": ["lstm"]}})"), InputError);
  EXPECT_THROW(image_space().restrict(R"({"stages": {"hidden": [16]}})"), InputError);
}

/// What makes no difference does not make another network.
TEST(Genome, OfTheSameNetworkAreEqual) {
  const Space space = image_space();
  Draws draws = draws_of(4);
  Genome genome = random_genome(space, draws);
  genome.stages.assign(1, Stage{});
  genome.training = {};
  Genome other = genome;
  other.stages[0][static_cast<std::size_t>(StageGene::kernel_d)] = 4;  // images have no depth
  other.stages.push_back({3});                                         // identity
  other.training[static_cast<std::size_t>(TrainingGene::optimizer)] = genome.training[0] = 1;
  other.training[static_cast<std::size_t>(TrainingGene::momentum)] = 2;  // Adam has none
  EXPECT_NE(genome, other);
  EXPECT_EQ(repaired(genome, space), repaired(other, space));
}

/// FLOPs of a network that can be counted by hand: 3 x 20 x 24 -> conv 3x3 to 4 filters, stride 2 -> 4 x 10 x 12.
TEST(Genome, Costs) {
  const Space space = image_space();
  Genome genome{{Stage{}}, {}, {}};
  genome.stages[0][static_cast<std::size_t>(StageGene::kernel_h)] = 2;
  genome.stages[0][static_cast<std::size_t>(StageGene::kernel_w)] = 2;
  genome.stages[0][static_cast<std::size_t>(StageGene::stride)] = 1;
  const Cost cost = cost_of(repaired(genome, space), space);
  EXPECT_EQ(cost.parameters, 4 * 3 * 9 + 4 + 480 * 10 + 10);
  EXPECT_DOUBLE_EQ(cost.flops, 2.0 * (120 * 4 * 3 * 9 + 480 * 10));
  Space small = space;
  small.most_parameters = 4000;
  EXPECT_EQ(over_limit(cost, small), "4922 parameters, at most 4000");
  EXPECT_EQ(over_limit(cost, space), "");
}

TEST(Space, IsRestricted) {
  Space space = image_space();
  space.restrict(R"({"stages": {"number": [1, 2], "filters": [8, 16], "batch_norm": ["yes"]},
                     "training": {"optimizer": ["adam"]}, "limits": {"parameters": 5000}})");
  EXPECT_EQ(space.most_stages, 2u);
  EXPECT_EQ(space.most_parameters, 5000);
  Space copy = image_space();
  copy.restrict(space.to_json());
  EXPECT_EQ(copy.to_json(), space.to_json());
  std::set<std::size_t> numbers;
  Draws draws = draws_of(5);
  for (int i = 0; i < 100; ++i) {
    const Genome g = random_genome(space, draws);
    numbers.insert(g.stages.size());
    EXPECT_EQ(g.training[0], 0);
  }
  EXPECT_EQ(numbers, (std::set<std::size_t>{1, 2}));
  Space of_lion = image_space();
  of_lion.restrict(R"({"training": {"optimizer": ["lion", "sgd"]}})");  // lion is not among a search's own choices
  EXPECT_EQ(of_lion.training[0].choices, (std::vector<std::string>{"sgd", "lion"}));
  EXPECT_THROW(of_lion.restrict(R"({"training": {"optimizer": ["adagrad"]}})"), InputError);
  Space of_kfac = image_space();
  const std::size_t genes = of_kfac.training.size();
  of_kfac.restrict(
      R"({"training": {"optimizer": ["kfac"], "rate": [0.5, 0.003], "batch": [4],
                       "options": ["", "damping=0.25,eigen=true"]}})");
  EXPECT_EQ(of_kfac.training[1].choices, (std::vector<std::string>{"0.003", "0.5"}));
  ASSERT_EQ(of_kfac.training.size(), genes + 1);
  Space copy_of_kfac = image_space();
  copy_of_kfac.restrict(of_kfac.to_json());
  EXPECT_EQ(copy_of_kfac.to_json(), of_kfac.to_json());
  Genome with_options = random_genome(of_kfac, draws);
  with_options.training[7] = of_kfac.training[7].index_of("damping=0.25,eigen=true");
  const auto made = std::dynamic_pointer_cast<Kfac>(training_of(with_options, copy_of_kfac, 1).optimizer);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->damping, 0.25f);
  EXPECT_TRUE(made->eigen);
  EXPECT_EQ(to_json(parse_genome(to_json(with_options, of_kfac), of_kfac), of_kfac), to_json(with_options, of_kfac));
  EXPECT_THROW(of_kfac.restrict(R"({"training": {"rate": ["fast"]}})"), InputError);
  EXPECT_THROW(of_kfac.restrict(R"({"training": {"rate": [-1]}})"), InputError);
  EXPECT_THROW(of_kfac.restrict(R"({"training": {"batch": [0]}})"), InputError);
  EXPECT_THROW(of_kfac.restrict(R"({"training": {"batch": [2.5]}})"), InputError);
  EXPECT_THROW(image_space().restrict(R"({"training": {"options": ["damping=0.25"]}})"), InputError);  // not of sgd
  EXPECT_THROW(image_space().restrict(R"({"training": {"options": []}})"), InputError);
  EXPECT_THROW(space.restrict(R"({"stages": {"kernel_w": [11]}})"), InputError);
  EXPECT_THROW(space.restrict(R"({"stages": {"filters": [0]}})"), InputError);
  EXPECT_THROW(space.restrict(R"({"dense": {"units": [2.5]}})"), InputError);
  EXPECT_THROW(space.restrict(R"({"widths": {"stage1": 8}})"), InputError);
  EXPECT_THROW(space.restrict(R"({"copies": [1, 2]})"), InputError);
  EXPECT_THROW(space.restrict(R"({"stages": {"colour": ["red"]}})"), InputError);
  EXPECT_THROW(space.restrict(R"({"layers": {}})"), InputError);
  EXPECT_THROW(space.restrict(R"({"stages": {"number": [1, 1000000000000]}})"), InputError);
  EXPECT_THROW(space.restrict(R"({"limits": {"parameters": "few"}})"), InputError);
  EXPECT_THROW(space.restrict(R"({"limits": 5})"), InputError);
  EXPECT_THROW(table_space().restrict(R"({"stages": {"number": [1, 2]}})"), InputError);
}

}  // namespace
}  // namespace keelson::search
