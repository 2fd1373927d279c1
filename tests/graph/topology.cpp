#include "engine/graph/topology.hpp"

#include <gtest/gtest.h>

#include "engine/layers/layers.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::testing {
namespace {

Graph language(std::int64_t hidden, const std::string& name = "output") {
  Graph g;
  const Var x = g.input("x", {5}, DType::s32), y = g.input("a \"name\"\n of \xC3\xA9", {5}, DType::s32);
  const Var h = lstm(embedding(x, {12, hidden}, "embedding"), {.hidden = hidden}, "lstm");
  const Var logits = dense(h, {.features = 12, .weights_of = "embedding"}, name);
  g.set_output("logits", logits);
  cross_entropy(logits, y);
  return g;
}

TEST(Topology, ComesBackFromItsText) {
  const Topology t(language(6));
  EXPECT_EQ(Topology::parse(t.to_text()), t);
  EXPECT_EQ(Topology::parse(t.to_text()).to_text(), t.to_text());
  EXPECT_EQ(t.widths(),
            (std::map<std::string, std::int64_t>{{"embedding", 6}, {"lstm1", 6}, {"lstm1_input", 24}, {"output", 12}}));
  const Topology empty;
  EXPECT_EQ(Topology::parse(empty.to_text()), empty);
}

TEST(Topology, IsLinesThatPeopleCanRead) {
  const auto lines = Topology(language(6)).lines();
  EXPECT_EQ(lines.at("node output"),
            R"({"name":"output","kind":"dense","srcs":["lstm1"],"shape":[5,12],"dtype":"f32",)"
            R"("parameters":{"bias":[12],"weights":[12,6]},"shared":{"weights":"embedding/weights"}})");
  EXPECT_EQ(lines.at("node lstm1_state"),
            R"({"name":"lstm1_state","kind":"state","srcs":[],"shape":[1,2,6],"dtype":"f32"})");
  EXPECT_EQ(lines.at("outputs"), R"({"logits":"output"})");
}

TEST(Topology, NamesTheFirstDifference) {
  const Topology a(language(6)), b(language(7)), c(language(6, "last"));
  EXPECT_EQ(difference(a, a), "");
  EXPECT_EQ(difference(a, b).substr(0, 24), "node embedding is {\"name");
  EXPECT_NE(difference(a, c).find("node last is missing, expected {"), std::string::npos) << difference(a, c);
  auto d = a;
  std::swap(d.nodes[0], d.nodes[1]);
  EXPECT_EQ(difference(d, a).substr(0, 22), "order of the nodes is ");
  auto e = a;
  e.nodes.push_back({.name = "zz"});
  EXPECT_NE(difference(e, a), "");
}

TEST(Topology, RefusesOtherTexts) {
  const std::string too_many_dims = R"({"nodes":[{"name":"a","kind":"b","srcs":[],"shape":[1,2,3,4,5,6,7],)"
                                    R"("dtype":"f32"}],"outputs":{},"loss":""})";
  for (const std::string& text : {std::string(), std::string("{}"), std::string("[1, 2]"),
                                  std::string(R"({"nodes": [{"name": 3}]})"), too_many_dims}) {
    const auto refusal = message_of<InputError>([&] { Topology::parse(text); });
    EXPECT_NE(refusal.find("the text is no topology of a network"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace keelson::testing
