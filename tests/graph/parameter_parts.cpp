#include <gtest/gtest.h>

#include "engine/base/error.hpp"
#include "engine/layers/layers.hpp"
#include "tests/support/contexts.hpp"

/// Parameter::part: a rank holds some rows of an array.
namespace keelson::testing {
namespace {

/// hidden/weights: (4, 3).
Graph of_two_layers() {
  Graph g;
  mse(dense(dense(g.input("x", {3}), 4, "hidden"), 2, "last"), g.input("y", {2}));
  return g;
}

std::vector<float> counted_floats(std::size_t count, float first = 0) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i);
  return values;
}

std::vector<float> in_memory(Context& c, const Tensor& t) {
  std::vector<float> values(static_cast<std::size_t>(t.elements()));
  c.read_plain(t, values.data());
  return values;
}

class ParameterParts : public ::testing::TestWithParam<std::string> {
 protected:
  Context& ctx() { return context(GetParam()); }
  const Graph graph_ = of_two_layers();
  Parameters whole_{graph_, ctx(), 7}, parts_{graph_, ctx(), 7};
  Parameter& part(const Parameter::Part& rows) {
    parts_.set_part("hidden/weights", rows);
    return parts_.at("hidden/weights");
  }
};

TEST_P(ParameterParts, BeginAsTheWholeDoes) {
  const auto all = whole_.get(whole_.at("hidden/weights"));
  Parameter& rows = part({0, 1, 2});
  parts_.materialise(rows, Layout::plain(rows.held_shape()));
  EXPECT_EQ(rows.value.shape(), (Shape{2, 3}));
  EXPECT_EQ(rows.shape, (Shape{4, 3}));
  EXPECT_EQ(in_memory(ctx(), rows.value), std::vector<float>(all.begin() + 3, all.begin() + 9));

  Parameters others(graph_, ctx(), 7);
  others.set_part("hidden/weights", {1, 2, 1});
  Parameter& columns = others.at("hidden/weights");
  others.materialise(columns, Layout::plain(columns.held_shape()));
  EXPECT_EQ(in_memory(ctx(), columns.value), (std::vector<float>{all[2], all[5], all[8], all[11]}));
}

TEST_P(ParameterParts, OfNoRowsHaveNoMemory) {
  Parameter& none = part({0, 0, 0});
  parts_.materialise(none, Layout::plain(none.held_shape()));
  parts_.set(none, counted_floats(12));
  EXPECT_FALSE(none.value);
  EXPECT_TRUE(none.start.empty());
}

TEST_P(ParameterParts, TakeTheirRowsOfWholeArrays) {
  Parameter& columns = part({1, 1, 2});
  parts_.set(columns, counted_floats(12));  // before there is memory
  parts_.set(columns, counted_floats(12, 100), 0);
  parts_.materialise(columns, Layout::plain(columns.held_shape()));
  parts_.add_moments(columns, 2);
  EXPECT_EQ(in_memory(ctx(), columns.value), (std::vector<float>{1, 2, 4, 5, 7, 8, 10, 11}));
  EXPECT_EQ(in_memory(ctx(), columns.moments[0]), (std::vector<float>{101, 102, 104, 105, 107, 108, 110, 111}));
  EXPECT_EQ(in_memory(ctx(), columns.moments[1]), std::vector<float>(8));
  parts_.set(columns, counted_floats(12, 200), 1);
  parts_.set(columns, counted_floats(12, 50));
  EXPECT_EQ(in_memory(ctx(), columns.value), (std::vector<float>{51, 52, 54, 55, 57, 58, 60, 61}));
  EXPECT_EQ(in_memory(ctx(), columns.moments[1]), (std::vector<float>{201, 202, 204, 205, 207, 208, 210, 211}));
}

TEST_P(ParameterParts, CutValuesThatWereGivenBefore) {
  Parameter& p = parts_.at("hidden/weights");
  parts_.set(p, counted_floats(12));
  parts_.set(p, counted_floats(12, 20), 0);
  part({0, 3, 1});
  parts_.materialise(p, Layout::plain(p.held_shape()));
  parts_.add_moments(p, 1);
  EXPECT_EQ(in_memory(ctx(), p.value), (std::vector<float>{9, 10, 11}));
  EXPECT_EQ(in_memory(ctx(), p.moments[0]), (std::vector<float>{29, 30, 31}));
}

TEST_P(ParameterParts, AreNoWholeArrays) {
  Parameter& rows = part({0, 0, 3});
  EXPECT_TRUE(parts_.are_spread());
  EXPECT_FALSE(whole_.are_spread());
  try {
    parts_.get(rows);
    ADD_FAILURE() << "a copy of the whole";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("gather()"), std::string::npos) << e.what();
  }
  EXPECT_THROW(parts_.remap(graph_, {}), InputError);
  EXPECT_THROW(part({0, 1, 3}), Error) << "another part";
  EXPECT_NO_THROW(part({0, 0, 3}));
  EXPECT_THROW(parts_.set_part("last/weights", {0, 1, 2}), Error) << "rows that there are not";
  Parameter& bias = parts_.at("last/bias");
  parts_.materialise(bias, Layout::plain(bias.shape));
  EXPECT_THROW(parts_.set_part("last/bias", {0, 0, 1}), Error) << "has memory";
  parts_.set_part("hidden/bias", {0, 0, 4});
  EXPECT_EQ(parts_.get(parts_.at("hidden/bias")).size(), 4u) << "a part that is the whole";
}

INSTANTIATE_TEST_SUITE_P(Contexts, ParameterParts, ::testing::ValuesIn(network_contexts()));

}  // namespace
}  // namespace keelson::testing
