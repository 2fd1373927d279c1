#include "search/genome/ranges.hpp"

#include <gtest/gtest.h>

#include <set>

#include "engine/base/error.hpp"
#include "search/breed/breed.hpp"
#include "search/genome/choices.hpp"
#include "search/genome/design.hpp"
#include "tests/search/spaces.hpp"

namespace keelson::search {
namespace {

GrowthOptions blueprint(std::map<std::string, WidthRange> widths, std::map<std::string, CopyRange> depth = {}) {
  GrowthOptions o;
  o.widths = std::move(widths);
  o.depth = std::move(depth);
  return o;
}

WidthRange units(std::int64_t least, std::int64_t most) { return {{.units = least}, {.units = most}}; }

/// Units and copies of all layers that two hundred networks of the space have, by the names of layers.
struct Found {
  std::map<std::string, std::set<std::int64_t>> units, copies;

  explicit Found(const Space& space) {
    Draws draws({7, philox::stream_of("test"), 0});
    Genome genome = random_genome(space, draws);
    for (int i = 0; i < 200; ++i) {
      genome = mutated(i % 2 == 0 ? random_genome(space, draws) : genome, space, {}, draws);
      add(repaired(genome, space), space);
    }
  }
  void add(const Genome& genome, const Space& space) {
    EXPECT_EQ(repaired(genome, space), genome);
    const Graph graph = network_of(genome, space);
    for (const Graph::Node& node : graph.nodes()) {
      const bool has_units = node.name.starts_with("stage") || node.name.starts_with("dense");
      if (!has_units || node.name.find("_act") != std::string::npos || node.name.find("_norm") != std::string::npos)
        continue;
      const auto copy = node.name.find("_copy");
      const std::string layer = node.name.substr(0, copy);
      if (layer.find('_') == std::string::npos || layer.ends_with("_lstm1") || layer.ends_with("_gru1"))
        units[layer].insert(node.shape.shape[1]);
      if (copy != std::string::npos && node.name.find('_', copy + 1) == std::string::npos)
        copies[layer].insert(std::stoll(node.name.substr(copy + 5)));
    }
  }
};

TEST(Ranges, NetworksOfATableKeepThem) {
  Space space = table_space();
  restrict_by(space, blueprint({{"*", units(20, 50)}, {"dense2", units(7, 7)}}, {{"dense1", {1, 3}}}), nullptr);
  const Found found(space);
  EXPECT_EQ(found.units.at("dense2"), std::set<std::int64_t>{7});
  EXPECT_EQ(found.units.at("dense1"), (std::set<std::int64_t>{20, 23, 32, 45, 50}));
  EXPECT_EQ(found.units.at("dense3"), found.units.at("dense1"));
  EXPECT_EQ(found.copies, (std::map<std::string, std::set<std::int64_t>>{{"dense1", {1, 2, 3}}}));
}

TEST(Ranges, NetworksOfSequencesKeepThem) {
  Space space = Space::of({12, 5}, 2, true);
  restrict_by(space,
              blueprint({{"stage1", units(6, 6)}, {"stage1_lstm1", units(24, 40)}, {"stage1_gru1", units(9, 9)}},
                        {{"*", {0, 1}}}),
              nullptr);
  const Found found(space);
  EXPECT_EQ(found.units.at("stage1_lstm1"), (std::set<std::int64_t>{24, 32, 40}));
  EXPECT_EQ(found.units.at("stage1_gru1"), std::set<std::int64_t>{9});
  EXPECT_TRUE(found.units.at("stage1").contains(6));
  EXPECT_FALSE(found.units.at("dense1").contains(6)) << "a range of other layers";
  EXPECT_GT(found.units.at("stage2").size(), 5u) << "a layer without an entry has any number";
  EXPECT_TRUE(found.copies.contains("stage2") && found.copies.contains("dense1"));
  for (const auto& [layer, copies] : found.copies) EXPECT_EQ(copies, std::set<std::int64_t>{1}) << layer;
}

TEST(Ranges, StandInTheSpacesText) {
  Space space = image_space(), read = image_space();
  auto options = blueprint({{"stage1", units(5, 12)}}, {{"stage1", {1, 2}}});
  options.parameters = LayerWidth{.units = 12345};
  restrict_by(space, options, nullptr);
  read.restrict(space.to_json());
  EXPECT_EQ(read.to_json(), space.to_json());
  EXPECT_EQ(read.most_parameters, 12345);
  Draws draws({8, philox::stream_of("test"), 0});
  for (int i = 0; i < 50; ++i) {
    const Genome genome = repaired(random_genome(space, draws), space);
    EXPECT_EQ(repaired(parse_genome(to_json(genome, read), read), read), genome);
  }
}

/// A copy of a convolution keeps extents and channels, whatever its stride and padding, and each of a residual block
/// adds what it reads.
TEST(Ranges, CopiesOfStages) {
  Space space = Space::of({3, 16, 16}, 2, true);
  space.restrict(
      R"({"stages": {"copies": [2], "kernel_h": [3], "kernel_w": [3], "stride": [2], "padding": ["valid"]}})");
  Genome genome;
  for (const char* kind : {"conv", "residual", "pool"}) {
    Stage stage{};
    stage[0] = space.stage[0].index_of(kind);
    genome.stages.push_back(stage);
  }
  ASSERT_EQ(repaired(genome, space), genome);
  const Graph graph = network_of(genome, space);
  const auto shape_of = [&](const std::string& name) {
    for (const Graph::Node& n : graph.nodes())
      if (n.name == name) return n.shape.shape;
    return Shape{};
  };
  for (const char* name :
       {"stage1", "stage1_copy1", "stage1_copy2_act", "stage2", "stage2_sum", "stage2_copy1_sum", "stage2_copy2_sum"})
    EXPECT_EQ(shape_of(name), (Shape{1, 4, 7, 7})) << name;
  EXPECT_EQ(shape_of("stage3"), (Shape{1, 4, 3, 3}));
}

/// Multiples count in the network to begin with, which becomes one of the restricted space.
TEST(Ranges, MultiplesCountInTheNetworkToBeginWith) {
  Space space = table_space();
  Genome start;
  for (const char* count : {"32", "64"}) {
    DenseLayer layer{};
    layer[0] = space.dense[0].index_of(count);
    start.dense.push_back(layer);
  }
  const std::int64_t parameters = cost_of(start, space).parameters;
  auto options = blueprint({{"*", {{.times = 0.5}, {.times = 2}}}, {"dense2", units(10, 12)}});
  options.parameters = LayerWidth{.times = 3};
  EXPECT_THROW(
      [&] {
        Space copy = space;
        restrict_by(copy, options, nullptr);
      }(),
      InputError);
  restrict_by(space, options, &start);
  EXPECT_EQ(space.most_parameters, 3 * parameters);
  EXPECT_EQ(space.widths.at("dense1").least, 16);
  EXPECT_EQ(space.widths.at("dense1").most, 64);
  EXPECT_EQ(space.widths.at("dense2").most, 12);
  EXPECT_FALSE(space.widths.contains("dense3"));
  ASSERT_EQ(start.dense.size(), 2u);
  EXPECT_EQ(DenseChoices(start.dense[0], space.dense).whole(DenseGene::units), 32);
  EXPECT_EQ(DenseChoices(start.dense[1], space.dense).whole(DenseGene::units), 12);
}

TEST(Ranges, RefuseWhatNoNetworkHas) {
  const auto said = [](const Space& given, const GrowthOptions& options) {
    Space space = given;
    try {
      restrict_by(space, options, nullptr);
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  const Space table = table_space(), image = image_space();
  EXPECT_NE(said(table, blueprint({{"conv3", units(1, 2)}})).find("\"conv3\""), std::string::npos);
  EXPECT_NE(said(table, blueprint({{"stage1", units(1, 2)}})).find("dense1 to dense5"), std::string::npos);
  EXPECT_NE(said(image, blueprint({{"stage1_lstm1", units(1, 2)}})).find("stage1 to stage8"), std::string::npos);
  EXPECT_NE(said(image, blueprint({{"stage1", units(3, 2)}})).find("from 3 to 2"), std::string::npos);
  EXPECT_NE(said(image, blueprint({}, {{"stage1", {0, 101}}})).find("from 0 to 100"), std::string::npos);
  EXPECT_NE(said(image, blueprint({}, {{"stage1_gru1", {0, 1}}})).find("stage1_gru1"), std::string::npos);
}

/// A genome from before a space had copies has none; another gene must be there.
TEST(Ranges, OlderGenomesHaveNoCopies) {
  Space space = table_space();
  Draws draws({9, philox::stream_of("test"), 0});
  const Genome genome = repaired(random_genome(space, draws), space);
  const std::string text = to_json(genome, space);
  space.restrict(R"({"dense": {"copies": [0, 2]}})");
  const Genome read = parse_genome(text, space);
  EXPECT_EQ(network_of(repaired(read, space), space).parameter_count(),
            network_of(genome, table_space()).parameter_count());
}

/// A genome of another space, whose numbers become choices.
TEST(Ranges, GenomesOfOtherSpacesAreAdmitted) {
  Space other = table_space(), space = table_space();
  other.restrict(
      R"({"dense": {"layers": [1, 2], "units": [33], "copies": [3]}, "training": {"optimizer": ["kfac"], "rate":
      [0.0123], "batch": [5], "options": ["damping=0.25"]}})");
  Draws draws({10, philox::stream_of("test"), 0});
  const std::string text = to_json(repaired(random_genome(other, draws), other), other);
  EXPECT_THROW(parse_genome(text, space), InputError);
  space.admit(text);
  EXPECT_EQ(to_json(repaired(parse_genome(text, space), space), space), text);
  const std::vector<std::string>& units = space.dense[0].choices;
  const auto place = std::ranges::find(units, "33");
  ASSERT_NE(place, units.end());
  EXPECT_EQ(*(place - 1), "32");
  EXPECT_EQ(*(place + 1), "45");
  EXPECT_THROW(table_space().restrict(space.to_json()), InputError) << "SGD has no damping";
  Space read = table_space();
  space.restrict(R"({"training": {"optimizer": ["kfac"]}})");
  read.restrict(space.to_json());
  EXPECT_EQ(read.to_json(), space.to_json());
  EXPECT_THROW(space.admit(R"({"dense": [{"units": "none"}]})"), InputError);
  space.admit(R"({"dense": [{"units": 5, "activation": "magic"}], "training": 5})");  // parse_genome() refuses it
  EXPECT_EQ(read.to_json(), space.to_json());
  for (const char* no_genome :
       {R"({"stages": [], "dense": [], "training": 5})", R"({"stages": {}, "dense": [], "training": {}})"})
    EXPECT_THROW(parse_genome(no_genome, space), InputError) << no_genome;
}

}  // namespace
}  // namespace keelson::search
