#include "apps/common/report/sample_list.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/data/bag.hpp"
#include "engine/data/dataset.hpp"

namespace keelson::app {
namespace {

/// Samples of two files, of which one has an awkward name.
class TwoFiles final : public Dataset {
 public:
  std::int64_t size() const override { return 4; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::int64_t, void* const*) const override {}
  std::string file_of(std::int64_t index) const override { return index < 2 ? "a.h5" : "b,\"2\"<.h5"; }
  std::int64_t row_of(std::int64_t index) const override { return index % 2; }
  std::string describe() const override { return "two files"; }

 private:
  std::vector<Field> fields_;
};

/// After epochs that have found these losses.
SamplePruning after(const std::vector<std::vector<float>>& losses) {
  SamplePruning p({PruneRule::infobatch, 0}, 4, 1, 8, false, true);
  std::int64_t epoch = 0;
  for (const auto& of_epoch : losses) {
    p.begin_epoch(epoch++);
    p.record(std::vector<std::int64_t>{0, 1, 2, 3}, of_epoch, true);
    p.absorb(p.gather(nullptr));
    p.end_epoch();
  }
  return p;
}

TEST(SampleList, IsACsvOfAllSamples) {
  const auto p = after({{0.1f, 0.25f, 3, 0.5f}, {2, 0.25f, 4, 0.5f}});
  EXPECT_EQ(samples_csv(p, TwoFiles(), 4),
            "file,row,index,score,last_loss,times_learned,times_forgotten,kept_share\n"
            "a.h5,0,0,2,2,1,1,0.5\n"
            "a.h5,1,1,0.25,0.25,2,0,0.5\n"
            "\"b,\"\"2\"\"<.h5\",0,2,4,4,0,0,0.5\n"
            "\"b,\"\"2\"\"<.h5\",1,3,0.5,0.5,2,0,0.5\n");
}

TEST(SampleList, NamesTheForgottenAndTheNeverLearned) {
  const auto p = after({{0.1f, 0.1f, 3, 0.1f}, {2, 1, 4, 0.1f}, {0.1f, 0.1f, 5, 0.1f}, {2, 3, 6, 0.1f}});
  EXPECT_EQ(forgotten_samples(p.table(), 20), (std::vector<std::int64_t>{1, 0})) << "equal numbers: the larger loss";
  EXPECT_EQ(forgotten_samples(p.table(), 1), std::vector<std::int64_t>{1});
  EXPECT_EQ(unlearned_samples(p.table(), 20), std::vector<std::int64_t>{2});
  const auto section = samples_section(p, TwoFiles());
  EXPECT_NE(section.html.find("b,&quot;2&quot;&lt;.h5"), std::string::npos) << section.html;
  const auto once = after({{0.1f, 0.1f, 3, 0.1f}});
  EXPECT_TRUE(unlearned_samples(once.table(), 20).empty()) << "one visit tells nothing";
  EXPECT_NE(samples_section(once, TwoFiles()).html.find("No sample was learned and then forgotten"), std::string::npos);
}

TEST(SampleList, HasTheLossesOfMembersWithoutASample) {
  const std::vector<std::uint64_t> seeds{1, 2, 3};
  ensemble::OutOfBag samples(seeds);
  samples.reset({.samples = 4, .prediction = {1, 2}, .target = {"y", {}, DType::s32}}, 3);
  // the members are sure of class 0, of class 1, and of nothing
  const std::vector<float> sure{9, 0, 9, 0, 9, 0, 9, 0}, other{0, 9, 0, 9, 0, 9, 0, 9}, even(8, 0.0f);
  const std::vector<std::int32_t> classes{0, 0, 1, -1};
  const std::vector<std::int64_t> indices{0, 1, 2, 3};
  EXPECT_EQ(samples.update({4, indices.data(), {sure.data(), other.data(), even.data()}, {}, classes.data()}), nullptr);
  samples.reduce(nullptr);
  const double wrong = 1 / (1 + std::exp(9.0)), right = 1 - wrong;
  for (std::size_t i = 0; i < 4; ++i) {
    double sum = 0;
    std::int64_t count = 0;
    const double of_member[] = {classes[i] == 0 ? right : wrong, classes[i] == 1 ? right : wrong, 0.5};
    for (std::size_t m = 0; m < 3; ++m) {
      if (bag_weight(seeds[m], static_cast<std::int64_t>(i)) > 0) continue;
      sum += of_member[m];
      ++count;
    }
    EXPECT_EQ(samples.members()[i], count) << i;
    if (count == 0 || classes[i] < 0)
      EXPECT_TRUE(std::isnan(samples.losses()[i])) << i;
    else
      EXPECT_NEAR(samples.losses()[i], -std::log(sum / static_cast<double>(count)), 1e-6) << i;
  }
  const auto csv = out_of_bag_csv(samples, TwoFiles());
  EXPECT_TRUE(csv.starts_with("file,row,index,members,loss\na.h5,0,0,")) << csv;
  EXPECT_EQ(std::ranges::count(csv, '\n'), 5);
}

}  // namespace
}  // namespace keelson::app
