#include "engine/base/algorithm_chooser.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "engine/base/error.hpp"
#include "tests/support/choice_folder.hpp"

namespace keelson {
namespace {

class AlgorithmChooserTest : public ::testing::Test {
 protected:
  AlgorithmChooser make() {
    return AlgorithmChooser("a processor", [this] { return now_; });
  }
  /// Among algorithms that take so many seconds; the first run of each takes `setup` more.
  std::size_t choose(AlgorithmChooser& chooser, const std::vector<double>& seconds, double setup = 0,
                     const std::string& key = "conv", int threads = 2) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < seconds.size(); ++i) names.push_back("algorithm " + std::to_string(i));
    runs_.assign(seconds.size(), 0);
    return chooser.choose(key, threads, names,
                          {[&](std::size_t i) { now_ += seconds[i] + (runs_[i]++ == 0 ? setup : 0); }});
  }

  const testing::ChoiceFolder folder_{"chooser"};
  double now_ = 0;
  std::vector<int> runs_;
};

TEST_F(AlgorithmChooserTest, TakesTheFastestAndRemembersIt) {
  auto chooser = make(), later = make();
  EXPECT_EQ(choose(chooser, {0.03, 0.01, 0.02}), 1u);
  EXPECT_EQ(choose(chooser, {0.01, 0.02, 0.03}), 1u);
  EXPECT_EQ(choose(later, {0.01, 0.02, 0.03}), 1u) << "from the file";
  EXPECT_EQ(runs_, std::vector<int>(3, 0));
  EXPECT_EQ(choose(later, {0.01, 0.02, 0.03}, 0, "another convolution"), 0u);
  EXPECT_EQ(choose(later, {0.01, 0.02, 0.03}, 0, "conv", 3), 0u) << "by another number of threads";
}

TEST_F(AlgorithmChooserTest, DoesNotCountTheFirstRun) {
  auto chooser = make();
  double setup[] = {0.5, 0};
  int first[] = {1, 1};
  const auto chosen = chooser.choose("conv", 1, {"sets things up", "slow"}, {[&](std::size_t i) {
                                       now_ += (i == 0 ? 0.01 : 0.02) + (first[i] ? setup[i] : 0);
                                       first[i] = 0;
                                     }});
  EXPECT_EQ(chosen, 0u);
}

TEST_F(AlgorithmChooserTest, PreparesOnceOutsideTheFirstTime) {
  auto chooser = make();
  int prepared = 0;
  const auto choose_long = [&] {
    const double seconds[] = {5, 6};
    return chooser.choose("conv", 1, {"a", "b"},
                          {[&](std::size_t i) { now_ += seconds[i]; },
                           [&] {
                             now_ += 3;
                             ++prepared;
                           }});
  };
  EXPECT_EQ(choose_long(), 0u);
  EXPECT_EQ(prepared, 1);
  EXPECT_EQ(chooser.seconds(), 14);
  EXPECT_EQ(choose_long(), 0u);
  EXPECT_EQ(prepared, 1) << "though nothing was measured";
}

TEST_F(AlgorithmChooserTest, LeavesOffWhatIsFarBehindAndRunsLongWorkOnce) {
  auto chooser = make();
  EXPECT_EQ(choose(chooser, {0.01, 0.5, 0.011}), 0u);
  EXPECT_GT(runs_[0], 2);
  EXPECT_EQ(runs_[1], 2);
  EXPECT_GT(runs_[2], 2);
  EXPECT_EQ(choose(chooser, {0.016, 0.013, 0.01, 0.011}, 0, "sooner the farther behind"), 2u);
  EXPECT_EQ(runs_, (std::vector<int>{2, 3, 4, 4}));
  EXPECT_EQ(choose(chooser, {7, 5, 6}, 0, "a large convolution"), 1u);
  EXPECT_EQ(runs_, std::vector<int>(3, 1));
}

TEST_F(AlgorithmChooserTest, TakesTheRuleOfThumbWhereNothingIsMeasured) {
  auto chooser = make();
  {
    const AlgorithmChooser::RulesOfThumb rules(&chooser);
    EXPECT_FALSE(chooser.measures());
    EXPECT_EQ(choose(chooser, {2, 1}), 0u);
  }
  EXPECT_TRUE(chooser.measures());
  EXPECT_EQ(choose(chooser, {2, 1}), 1u);
  ::setenv("KEELSON_TUNE", "off", 1);
  auto off = make();
  EXPECT_EQ(choose(off, {2, 1}), 0u);
  EXPECT_EQ(runs_, std::vector<int>(2, 0));
}

TEST_F(AlgorithmChooserTest, AdoptsAnotherRanksChoices) {
  auto first = make();
  choose(first, {2, 1});
  ::setenv("KEELSON_CACHE", (folder_.path() / "of another node").c_str(), 1);
  auto second = make();
  EXPECT_EQ(choose(second, {1, 2}, 0, "its own"), 0u);
  second.adopt(first.text());
  EXPECT_EQ(choose(second, {1, 2}), 1u) << "though it would measure otherwise";
  EXPECT_EQ(runs_, std::vector<int>(2, 0));
  EXPECT_EQ(choose(second, {1, 2, 3}), 1u) << "though its candidates are others";
  EXPECT_EQ(choose(second, {1}), 0u) << "a choice that this rank does not have";
  EXPECT_EQ(choose(second, {1, 2}, 0, "conv", 8), 1u) << "whatever its number of threads";
  EXPECT_EQ(runs_, std::vector<int>(2, 0));
  ::setenv("KEELSON_TUNE", "off", 1);
  auto off = make();
  off.adopt(first.text());
  EXPECT_EQ(choose(off, {1, 2}), 1u) << "though it would not measure";
  EXPECT_EQ(choose(off, {2, 1}, 0, "its own"), 0u);
  const AlgorithmChooser::RulesOfThumb rules(&off);
  EXPECT_EQ(choose(off, {1, 2}), 0u) << "though it has adopted another one";
}

TEST_F(AlgorithmChooserTest, TakesTheRuleOfThumbOnAllRanksWhereMemoryIsMissing) {
  auto first = make();
  const AlgorithmChooser::Trials no_memory{[](std::size_t) { ADD_FAILURE(); }, [] { throw OutOfMemory("no memory"); }};
  EXPECT_EQ(first.choose("conv", 1, {"algorithm 0", "algorithm 1"}, no_memory), 0u);
  auto other = make();
  other.adopt(first.text());
  EXPECT_EQ(choose(other, {2, 1}), 0u) << "though it would measure otherwise";
  auto later = make();
  EXPECT_EQ(choose(later, {2, 1}), 1u) << "nothing is in the file";
}

TEST_F(AlgorithmChooserTest, KeepsNothingOfAFailure) {
  auto chooser = make();
  EXPECT_THROW(chooser.choose("conv", 1, {"a", "b"}, {[](std::size_t) { throw std::runtime_error("a kernel fails"); }}),
               std::runtime_error);
  EXPECT_EQ(choose(chooser, {2, 1}), 1u);
}

}  // namespace
}  // namespace keelson
