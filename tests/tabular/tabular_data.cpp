#include "apps/tabular/data/tabular_data.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>

#include "engine/base/error.hpp"
#include "tests/train/support.hpp"

namespace keelson::tabular::testing {
namespace {

using keelson::testing::Folder;

struct Row {
  std::vector<float> x, y;
  std::int32_t label = -1;
};

Row row_of(const Dataset& data, std::int64_t i) {
  const bool classes = data.fields()[1].dtype == DType::s32;
  Row r;
  r.x.resize(static_cast<std::size_t>(data.fields()[0].shape.elements()));
  r.y.resize(classes ? 0 : static_cast<std::size_t>(data.fields()[1].shape.elements()));
  void* const dst[] = {r.x.data(), classes ? static_cast<void*>(&r.label) : r.y.data()};
  data.read(i, dst);
  return r;
}

class TabularDataTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  }
  /// Ten rows: a, b = 10 a, never negative; c of both signs; names of two classes.
  std::string ten_rows() {
    std::string text = "a,b,c,kind\n";
    for (int i = 0; i < 10; ++i)
      text += fmt::format("{},{},{},{}\n", i, 10 * i, i % 2 == 0 ? i : -i, i < 4 ? "up" : "down");
    return write("ten.csv", text);
  }
  static std::string refusal(const std::function<void()>& work) {
    try {
      work();
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  }

  Folder folder;
};

TEST_F(TabularDataTest, ScalesAreThoseOfTheTrainingRowsAlone) {
  DataOptions o;
  o.train = ten_rows();
  o.holdout = 0.3;
  const TabularData data(o, nullptr, nullptr);
  EXPECT_EQ(data.training().size(), 7);
  EXPECT_EQ(data.validation().size(), 3);
  EXPECT_EQ(data.scaling().classes, (std::vector<std::string>{"down", "up"}));
  EXPECT_EQ(data.scaling().features, (std::vector<std::string>{"a", "b", "c"}));
  for (std::size_t f = 0; f < 3; ++f) {
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < 7; ++i) {
      const double x = static_cast<double>(row_of(data.training(), i).x[f]);
      sum += x;
      squares += x * x;
    }
    EXPECT_NEAR(sum / 7, 0, 1e-6);
    EXPECT_NEAR(squares / 7, 1, 1e-5);
  }
  // All rows once, in both parts together.
  std::set<int> seen;
  for (const Dataset* part :
       {static_cast<const Dataset*>(&data.training()), static_cast<const Dataset*>(&data.validation())})
    for (std::int64_t i = 0; i < part->size(); ++i)
      seen.insert(static_cast<int>(std::lround(
          static_cast<double>(row_of(*part, i).x[0]) * data.scaling().deviations[0] + data.scaling().means[0])));
  EXPECT_EQ(seen.size(), 10u);
}

TEST_F(TabularDataTest, ScalesOfEachKind) {
  DataOptions o;
  o.train = o.validation = ten_rows();
  const auto at = [&](const std::string& kind, std::int64_t i) {
    o.scale = kind;
    return row_of(TabularData(o, nullptr, nullptr).training(), i).x;
  };
  EXPECT_EQ(at("none", 3), (std::vector<float>{3, 30, -3}));
  EXPECT_NEAR(at("standard", 9)[0], (9 - 4.5) / std::sqrt(8.25), 1e-6);
  EXPECT_NEAR(at("mean", 9)[0], 9 / 4.5, 1e-6);
  EXPECT_NEAR(at("mean", 9)[1], 90 / 45.0, 1e-6);
  double mean = 0, square = 0;
  for (int i = 0; i < 10; ++i) mean += std::log1p(i) / 10;
  for (int i = 0; i < 10; ++i) square += std::pow(std::log1p(i) - mean, 2) / 10;
  EXPECT_NEAR(at("log", 9)[0], (std::log1p(9) - mean) / std::sqrt(square), 1e-5);
  EXPECT_EQ(at("mean", 9)[2], at("standard", 9)[2]) << "of both signs";
  EXPECT_EQ(at("log", 9)[2], at("standard", 9)[2]);
}

TEST_F(TabularDataTest, NumbersToPredictAreScaledToo) {
  DataOptions o;
  o.train = o.validation = write("n.csv", "x,y,z\n1,10,5\n2,20,5\n3,60,5\n");
  o.kind = "numbers";
  o.targets = {"y", "z"};
  const TabularData data(o, nullptr, nullptr);
  EXPECT_FALSE(data.scaling().with_classes());
  EXPECT_EQ(data.scaling().outputs, 2);
  EXPECT_EQ(data.scaling().target_means, (std::vector<double>{30, 5}));
  EXPECT_NEAR(row_of(data.training(), 2).y[0], 30 / std::sqrt(1400.0 / 3), 1e-5);
  EXPECT_EQ(row_of(data.training(), 2).y[1], 0) << "a constant target";
  o.kind = "auto";
  o.targets = {"x"};
  EXPECT_TRUE(TabularData(o, nullptr, nullptr).scaling().with_classes()) << "few whole numbers";
  o.kind = "classes";
  EXPECT_EQ(TabularData(o, nullptr, nullptr).scaling().classes, (std::vector<std::string>{"1", "2", "3"}));
}

TEST_F(TabularDataTest, OtherRowsAreReadAsTheNetworkReadsThem) {
  DataOptions o;
  o.train = ten_rows();
  const TabularData data(o, nullptr, nullptr);
  const auto text = data.scaling().to_json();
  const Scaling scaling = Scaling::parse(text, "test");
  EXPECT_EQ(scaling.to_json(), text);
  // Other columns, in another order, and one class alone.
  const auto other = open_rows(write("o.csv", "kind,c,more,b,a\nup,1,7,50,5\n"), o, scaling, nullptr);
  EXPECT_EQ(other->size(), 1);
  const Row r = row_of(*other, 0);
  EXPECT_NEAR(r.x[0], (5 - scaling.means[0]) / scaling.deviations[0], 1e-6);
  EXPECT_NEAR(r.x[1], (50 - scaling.means[1]) / scaling.deviations[1], 1e-6);
  EXPECT_EQ(r.label, 1);
  EXPECT_NE(refusal([&] {
              open_rows(write("p.csv", "kind,c,b,a\nsideways,1,50,5\n"), o, scaling, nullptr);
            }).find("the class 'sideways' is not one of the 2 classes"),
            std::string::npos);
  EXPECT_NE(refusal([&] { open_rows(write("q.csv", "kind,c,a\nup,1,5\n"), o, scaling, nullptr); }).find("b"),
            std::string::npos);
  EXPECT_NE(refusal([&] { Scaling::parse("{}", "run.h5"); }).find("run.h5: the text 'scaling' cannot be read"),
            std::string::npos);
}

TEST_F(TabularDataTest, AShuffledFeatureHasAllItsValuesOnceAndOthersStay) {
  DataOptions o;
  o.train = o.validation = ten_rows();
  o.scale = "none";
  const TabularData data(o, nullptr, nullptr);
  const ShuffledFeature shuffled(data.training(), 1, 0), again(data.training(), 1, 0), other(data.training(), 1, 1);
  std::multiset<float> values;
  int moved = 0, differ = 0;
  for (std::int64_t i = 0; i < 10; ++i) {
    const Row before = row_of(data.training(), i), after = row_of(shuffled, i);
    EXPECT_EQ(after.x[0], before.x[0]);
    EXPECT_EQ(after.x[2], before.x[2]);
    EXPECT_EQ(after.label, before.label);
    EXPECT_EQ(after.x, row_of(again, i).x);
    values.insert(after.x[1]);
    moved += after.x[1] != before.x[1];
    differ += after.x[1] != row_of(other, i).x[1];
  }
  EXPECT_EQ(values, (std::multiset<float>{0, 10, 20, 30, 40, 50, 60, 70, 80, 90}));
  EXPECT_GT(moved, 3);
  EXPECT_GT(differ, 3);
}

TEST_F(TabularDataTest, RefusesWhatIsNoTableOfRows) {
  DataOptions o;
  o.train = write("one.csv", "a,b\n1,x\n2,x\n3,x\n");
  o.holdout = 0.34;
  EXPECT_NE(refusal([&] { TabularData(o, nullptr, nullptr); }).find("1 classes; expected 2 to"), std::string::npos);
  o.train = write("two.csv", "a,b\n1,x\n");
  EXPECT_NE(refusal([&] { TabularData(o, nullptr, nullptr); }).find("too few rows to hold out"), std::string::npos);
  o.missing = "none";
  EXPECT_NE(refusal([&] { TabularData(o, nullptr, nullptr); }).find("--missing none"), std::string::npos);
}

}  // namespace
}  // namespace keelson::tabular::testing
