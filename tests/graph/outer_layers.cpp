#include "engine/graph/outer_layers.hpp"

#include <gtest/gtest.h>

#include "engine/layers/layers.hpp"

namespace keelson::testing {
namespace {

using NameSet = std::set<std::string>;

TEST(OuterLayers, OfAClassifier) {
  Graph g;
  const Var h = batch_norm(relu(conv(g.input("x", {3, 6, 6}), {.filters = 5, .size = 3}, "conv")), {}, "norm");
  mse(tanh(dense(relu(dense(flatten(h), 7, "hidden")), 2, "out")), g.input("y", {2}));
  EXPECT_EQ(matrices_of_outer_layers(g), NameSet{"out/weights"});
}

TEST(OuterLayers, OfANetworkWithSeveralOutputs) {
  Graph g;
  const Var x = g.input("x", {3, 6, 6});
  const Var h = relu(conv(x, {.filters = 5, .size = 3}, "trunk"));
  const Var image = conv(h, {.filters = 2, .size = 1}, "image"), numbers = dense(flatten(h), 4, "numbers");
  g.set_output("image", image);
  mse(numbers, g.input("y", {4}));
  EXPECT_EQ(matrices_of_outer_layers(g), (NameSet{"image/weights", "numbers/weights"}));
}

TEST(OuterLayers, OfALanguageModel) {
  for (const bool tied : {false, true}) {
    Graph g;
    const Var rows = embedding(g.input("x", {3}, DType::s32), {.entries = 23, .features = 9}, "embedding");
    DenseOptions last{.features = 23};
    if (tied) last.weights_of = "embedding";
    const Var logits = dense(dense(rows, 9, "hidden"), last, "output");
    loss(logits, g.input("y", {3}, DType::s32), {.kind = ops::LossKind::cross_entropy, .sum_rows = true});
    NameSet want{"embedding/weights"};
    if (!tied) want.insert("output/weights");
    EXPECT_EQ(matrices_of_outer_layers(g), want) << tied;
  }
}

}  // namespace
}  // namespace keelson::testing
