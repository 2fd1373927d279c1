#include "apps/common/report/sample_list.hpp"

#include <gtest/gtest.h>

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
            "file,index,score,last_loss,times_learned,times_forgotten,kept_share\n"
            "a.h5,0,2,2,1,1,0.5\n"
            "a.h5,1,0.25,0.25,2,0,0.5\n"
            "\"b,\"\"2\"\"<.h5\",2,4,4,0,0,0.5\n"
            "\"b,\"\"2\"\"<.h5\",3,0.5,0.5,2,0,0.5\n");
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

}  // namespace
}  // namespace keelson::app
