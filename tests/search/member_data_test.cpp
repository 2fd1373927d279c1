#include <gtest/gtest.h>

#include <set>

#include "apps/search/training/train_member.hpp"
#include "engine/base/error.hpp"
#include "tests/search/spaces.hpp"

namespace keelson::search {
namespace {

/// Sample i is the number i.
class Counted final : public Dataset {
 public:
  explicit Counted(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::int64_t index, void* const* dst) const override {
    *static_cast<float*>(dst[0]) = static_cast<float>(index);
  }
  std::string describe() const override { return "numbers"; }
  std::uint64_t digest() const override { return 1; }

 private:
  std::int64_t size_;
  std::vector<Field> fields_{{"x", {1}}};
};

std::set<int> samples_of(const Dataset& data) {
  std::set<int> all;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    float value = 0;
    void* dst[] = {&value};
    data.read(i, dst);
    all.insert(static_cast<int>(value));
  }
  EXPECT_EQ(std::ssize(all), data.size());
  return all;
}

Settings tournament_settings(std::int64_t members, bool partition) {
  Settings s = settings_of(table_space());
  s.method = "ltfb";
  s.population = {.members = members, .interval = 1, .tournament = 0.1, .partition = partition};
  return s;
}

/// Tournament data are nobody's training data, and different for each member.
TEST(MemberData, IsDealt) {
  const Counted data(203);
  for (const bool partition : {false, true}) {
    const MemberData parts(tournament_settings(4, partition), data);
    std::set<int> trained, judged;
    std::size_t trainings = 0, tournaments = 0;
    for (std::int64_t m = 0; m < 4; ++m) {
      const auto training = samples_of(parts.training(m)), tournament = samples_of(parts.tournament(m));
      EXPECT_EQ(tournament.size(), 5u);
      trainings += training.size();
      tournaments += tournament.size();
      trained.insert(training.begin(), training.end());
      judged.insert(tournament.begin(), tournament.end());
    }
    EXPECT_EQ(judged.size(), tournaments);
    EXPECT_EQ(trained.size(), 183u);
    EXPECT_EQ(trainings, partition ? 183u : 4 * 183u);
    for (const int sample : judged) EXPECT_FALSE(trained.contains(sample));
  }
  EXPECT_THROW(MemberData(tournament_settings(21, false), data), InputError);
  Settings pbt = tournament_settings(4, false);
  pbt.method = "pbt";
  EXPECT_EQ(&MemberData(pbt, data).training(2), &data);
}

/// What the first rank of a worker sends to the others.
TEST(MemberTask, TextIsExact) {
  const Space space = table_space();
  MemberTask task{.id = 3, .rung = 2};
  task.genome.dense.resize(1);
  task.genome.training[1] = 4;
  task.interval = {.source = 5, .source_rung = 1, .partner = 6, .training = task.genome.training};
  task.partner[4] = 2;
  const MemberTask read = MemberTask::parse(task.to_json(space), space);
  EXPECT_EQ(read.to_json(space), task.to_json(space));
  EXPECT_EQ(read.genome, task.genome);
  EXPECT_EQ(read.partner, task.partner);
  EXPECT_EQ(read.interval.source, 5);
  EXPECT_EQ(read.interval.partner, 6);
}

}  // namespace
}  // namespace keelson::search
