#include "nets/mlp/mlp.hpp"

#include <gtest/gtest.h>

#include "engine/base/error.hpp"
#include "engine/graph/topology.hpp"

namespace keelson::testing {
namespace {

TEST(Mlp, HasTheParametersOfItsSizes) {
  EXPECT_EQ(nets::mlp().parameter_count(), 28 * 300 + 300 + 4 * (300 * 300 + 300) + 300 * 2 + 2) << "that of HIGGS";
  EXPECT_EQ(nets::mlp({.features = 5, .outputs = 3, .layers = 0}).parameter_count(), 5 * 3 + 3) << "a linear model";
  const Graph g =
      nets::mlp({.features = 5, .outputs = 3, .classes = false, .layers = 2, .units = 7, .batch_norm = true});
  EXPECT_EQ(g.parameter_count(), 5 * 7 + 7 + 7 * 7 + 7 + 7 * 3 + 3 + 2 * (7 + 7));
  EXPECT_EQ(Topology(g).widths().at("dense2"), 7);
}

TEST(Mlp, DropsUnitsOfTheLastLayers) {
  const auto dropped = [](int layers) {
    const Graph g = nets::mlp({.layers = 3, .units = 4, .dropout = 0.5f, .dropout_layers = layers});
    std::int64_t count = 0;
    for (const auto& node : g.nodes()) count += node.name.starts_with("dropout") ? 1 : 0;
    return count;
  };
  EXPECT_EQ(dropped(0), 3);
  EXPECT_EQ(dropped(1), 1);
}

TEST(Mlp, RefusesWhatIsNoNetwork) {
  EXPECT_THROW(nets::mlp({.features = 0}), InputError);
  EXPECT_THROW(nets::mlp({.units = 0}), InputError);
  EXPECT_THROW(nets::mlp({.activation = "swish"}), InputError);
}

}  // namespace
}  // namespace keelson::testing
