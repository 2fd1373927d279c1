#include "engine/tune/autotuner.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "engine/base/error.hpp"
#include "engine/tune/wall_clock_timer.hpp"
#include "tests/support/choice_folder.hpp"

namespace keelson {
namespace {

class AutotunerTest : public ::testing::Test {
 protected:
  Autotuner make() {
    return Autotuner("a processor", std::make_unique<WallClockTimer>([this] { return now_; }));
  }
  /// Among algorithms that take so many seconds; the first run of each takes `setup` more.
  std::size_t choose(Autotuner& autotuner, const std::vector<double>& seconds, double setup = 0,
                     const std::string& key = "conv", const std::string& conditions = "2 threads") {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < seconds.size(); ++i) names.push_back("algorithm " + std::to_string(i));
    runs_.assign(seconds.size(), 0);
    const auto run = [&](std::size_t i) {
      now_ += seconds[i] + (runs_[i]++ == 0 ? setup : 0);
      return true;
    };
    return autotuner.choose(key, conditions, names, {run}).value();
  }

  const testing::ChoiceFolder folder_{"autotuner"};
  double now_ = 0;
  std::vector<int> runs_;
};

TEST_F(AutotunerTest, TakesTheFastestAndRemembersIt) {
  auto autotuner = make(), later = make();
  EXPECT_EQ(choose(autotuner, {0.03, 0.01, 0.02}), 1u);
  EXPECT_EQ(choose(autotuner, {0.01, 0.02, 0.03}), 1u);
  EXPECT_EQ(choose(later, {0.01, 0.02, 0.03}), 1u) << "from the file";
  EXPECT_EQ(runs_, std::vector<int>(3, 0));
  EXPECT_EQ(choose(later, {0.01, 0.02, 0.03}, 0, "another convolution"), 0u);
  EXPECT_EQ(choose(later, {0.01, 0.02, 0.03}, 0, "conv", "3 threads"), 0u) << "under other conditions";
}

TEST_F(AutotunerTest, DoesNotCountTheFirstRun) {
  auto autotuner = make();
  double setup[] = {0.015, 0};
  int first[] = {1, 1};
  const auto chosen = autotuner.choose("conv", "", {"sets things up", "slow"}, {[&](std::size_t i) {
                                         now_ += (i == 0 ? 0.01 : 0.02) + (first[i] ? setup[i] : 0);
                                         first[i] = 0;
                                         return true;
                                       }});
  EXPECT_EQ(chosen, 0u);
}

TEST_F(AutotunerTest, PreparesOnceOutsideTheFirstTime) {
  auto autotuner = make();
  int prepared = 0;
  const auto choose_long = [&] {
    const double seconds[] = {5, 6};
    const auto run = [&](std::size_t i) {
      now_ += seconds[i];
      return true;
    };
    return autotuner.choose("conv", "", {"a", "b"}, {run, [&](const auto&) {
                                                       now_ += 3;
                                                       ++prepared;
                                                     }});
  };
  EXPECT_EQ(choose_long(), 0u);
  EXPECT_EQ(prepared, 1);
  EXPECT_EQ(choose_long(), 0u);
  EXPECT_EQ(prepared, 1) << "though nothing was measured";
}

TEST_F(AutotunerTest, KeepsTheMemoryOfTrialsAsLongAsItIsToldTo) {
  auto autotuner = make();
  int made = 0, cleared = 0;
  std::weak_ptr<void> last;
  const auto take = [&](std::size_t bytes) {
    const auto make_block = [&] {
      EXPECT_TRUE(last.expired()) << "two blocks at the same time";
      ++made;
      return std::static_pointer_cast<void>(std::make_shared<char>());
    };
    const auto memory = autotuner.zeros(bytes, make_block, [&](void* kept) { cleared += kept == last.lock().get(); });
    last = memory;
  };
  take(64);
  EXPECT_TRUE(last.expired());
  {
    const Autotuner::KeepsMemory keeps(&autotuner);
    {
      const Autotuner::KeepsMemory also_keeps(&autotuner), nothing(nullptr);
      take(64);
      take(32);
      EXPECT_EQ(made, 2);
      EXPECT_EQ(cleared, 1);
      take(128);
    }
    take(128);
    EXPECT_EQ(made, 3);
    EXPECT_EQ(cleared, 2);
    EXPECT_FALSE(last.expired());
  }
  EXPECT_TRUE(last.expired());
}

TEST_F(AutotunerTest, LeavesOffWhatIsFarBehindAndRunsLongWorkOnce) {
  auto autotuner = make();
  EXPECT_EQ(choose(autotuner, {0.01, 0.5, 0.011}), 0u);
  EXPECT_GT(runs_[0], 2);
  EXPECT_EQ(runs_[1], 1);
  EXPECT_GT(runs_[2], 2);
  EXPECT_EQ(choose(autotuner, {0.0001, 0.003}, 0, "quick ones, whose first run proves nothing"), 0u);
  EXPECT_EQ(runs_[1], 2);
  EXPECT_EQ(choose(autotuner, {0.08, 0.06, 0.056}, 0, "long ones, of which two runs are enough"), 2u);
  EXPECT_EQ(runs_, (std::vector<int>{1, 2, 2}));
  EXPECT_EQ(choose(autotuner, {0.016, 0.013, 0.01, 0.011}, 0, "sooner the farther behind"), 2u);
  EXPECT_EQ(runs_, (std::vector<int>{2, 3, 4, 4}));
  EXPECT_EQ(choose(autotuner, {7, 5, 6}, 0, "a large convolution"), 1u);
  EXPECT_EQ(runs_, std::vector<int>(3, 1));
}

TEST_F(AutotunerTest, RepeatsShortWorkThatOtherProgramsDisturb) {
  auto autotuner = make();
  int runs[2] = {};
  const auto run = [&](std::size_t i) {
    const bool disturbed = i == 1 && runs[i] < 6;
    now_ += (i == 0 ? 0.00045 : 0.0004) * (disturbed ? 1.25 : 1);
    return ++runs[i] > 0;
  };
  EXPECT_EQ(autotuner.choose("conv", "", {"a", "b"}, {run}), 1u);
}

TEST_F(AutotunerTest, DoesNotRunWhatWasHopelessForALongProblemOfTheSameKind) {
  auto autotuner = make();
  std::vector<int> runs;
  std::vector<std::size_t> prepared;
  const auto choose_of_kind = [&](const std::string& key, const std::vector<double>& seconds, const std::string& kind) {
    runs.assign(seconds.size(), 0);
    const auto run = [&](std::size_t i) {
      now_ += seconds[i];
      return ++runs[i] > 0;
    };
    const auto prepare = [&](const std::vector<std::size_t>& candidates) { prepared = candidates; };
    return autotuner.choose(key, "", {"a", "b", "c"}, {run, prepare, kind}).value();
  };
  EXPECT_EQ(choose_of_kind("first", {2, 1, 1.3}, "3x3"), 1u);
  EXPECT_EQ(choose_of_kind("larger", {1, 9, 8}, "3x3"), 2u) << "a is faster here, but was hopeless before";
  EXPECT_EQ(runs, (std::vector<int>{0, 1, 1}));
  EXPECT_EQ(prepared, (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(choose_of_kind("other", {1, 9, 8}, "1x1"), 0u) << "of another kind";
  EXPECT_EQ(choose_of_kind("short", {0.01, 0.02, 0.02}, "3x3"), 0u) << "a short problem: all run";
  EXPECT_EQ(choose_of_kind("b and c are slower", {4, 2, 1}, "1x1"), 0u) << "the last one that is not hopeless";
  EXPECT_EQ(choose_of_kind("without a kind", {1, 9, 8}, ""), 0u);
  EXPECT_EQ(choose_of_kind("without a kind, again", {9, 1, 8}, ""), 1u);
}

TEST_F(AutotunerTest, TakesTheRuleOfThumbWhereNothingIsMeasured) {
  auto autotuner = make();
  {
    const Autotuner::RulesOfThumb rules(&autotuner);
    EXPECT_FALSE(autotuner.measures());
    EXPECT_EQ(choose(autotuner, {2, 1}), 0u);
  }
  EXPECT_TRUE(autotuner.measures());
  EXPECT_EQ(choose(autotuner, {2, 1}), 1u);
  ::setenv("KEELSON_TUNE", "off", 1);
  auto off = make();
  EXPECT_EQ(choose(off, {2, 1}), 0u);
  EXPECT_EQ(runs_, std::vector<int>(2, 0));
}

TEST_F(AutotunerTest, AdoptsAnotherRanksChoices) {
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
  EXPECT_EQ(choose(second, {1, 2}, 0, "conv", "8 threads"), 1u) << "under any conditions";
  EXPECT_EQ(runs_, std::vector<int>(2, 0));
  ::setenv("KEELSON_TUNE", "off", 1);
  auto off = make();
  off.adopt(first.text());
  EXPECT_EQ(choose(off, {1, 2}), 1u) << "though it would not measure";
  EXPECT_EQ(choose(off, {2, 1}, 0, "its own"), 0u);
  const Autotuner::RulesOfThumb rules(&off);
  EXPECT_EQ(choose(off, {1, 2}), 0u) << "though it has adopted another one";
}

TEST_F(AutotunerTest, TakesTheRuleOfThumbOnAllRanksWhereMemoryIsMissing) {
  auto first = make();
  const Autotuner::Trials no_memory{[](std::size_t) { return ADD_FAILURE(), true; },
                                    [](const auto&) { throw OutOfMemory("no memory"); }};
  EXPECT_EQ(first.choose("conv", "", {"algorithm 0", "algorithm 1"}, no_memory), 0u);
  auto other = make();
  other.adopt(first.text());
  EXPECT_EQ(choose(other, {2, 1}), 0u) << "though it would measure otherwise";
  auto later = make();
  EXPECT_EQ(choose(later, {2, 1}), 1u) << "nothing is in the file";
}

TEST_F(AutotunerTest, KeepsNothingOfAFailure) {
  auto autotuner = make();
  const auto run = [](std::size_t) -> bool { throw std::runtime_error("a kernel fails"); };
  EXPECT_THROW(autotuner.choose("conv", "", {"a", "b"}, {run}), std::runtime_error);
  EXPECT_EQ(choose(autotuner, {2, 1}), 1u);
}

TEST_F(AutotunerTest, TakesNoCandidateThatDoesNotRun) {
  auto autotuner = make();
  const auto none = [](std::size_t) { return false; };
  EXPECT_EQ(autotuner.choose("conv", "", {"a", "b"}, {none}), std::nullopt);
  const auto second = [&](std::size_t i) {
    now_ += 1;
    return i == 1;
  };
  EXPECT_EQ(autotuner.choose("conv", "", {"a", "b"}, {second}), 1u) << "that no candidate runs was not kept";
}

/// Two ranks as two threads: what the first one sends reaches the second.
class TwoRanks {
 public:
  TuningRanks of(int rank) {
    return {rank, [this, rank](const std::string& text) {
              if (rank == 0) text_ = text;
              meet_.arrive_and_wait();
              const std::string sent = text_;
              meet_.arrive_and_wait();
              return sent;
            }};
  }
  /// Calls `work` with each rank's number at the same time.
  static void run(const std::function<void(int)>& work) {
    std::thread second([&] { work(1); });
    work(0);
    second.join();
  }

 private:
  std::string text_;
  std::barrier<> meet_{2};
};

/// Gives the times that were set for this rank.
class SetTimes : public TrialTimer {
 public:
  SetTimes(std::vector<double> times, int& calls) : times_(std::move(times)), calls_(calls) {}
  std::vector<double> time(std::size_t, const RunCandidate&) override { return ++calls_, times_; }

 private:
  std::vector<double> times_;
  int& calls_;
};

TEST_F(AutotunerTest, RanksThatChooseTogetherTakeTheFirstRanksChoice) {
  TwoRanks ranks;
  int calls[2] = {0, 0};
  std::optional<std::size_t> chosen[2];
  const auto choose_on = [&](int rank) {
    const std::vector<double> times = rank == 0 ? std::vector<double>{2, 1} : std::vector<double>{1, 2};
    Autotuner autotuner("ranks", std::make_unique<SetTimes>(times, calls[rank]), ranks.of(rank));
    const auto run = [](std::size_t) { return true; };
    for (int again = 0; again < 2; ++again) chosen[rank] = autotuner.choose("sum", "", {"a", "b"}, {run});
  };
  TwoRanks::run(choose_on);
  EXPECT_EQ(chosen[0], 1u);
  EXPECT_EQ(chosen[1], 1u) << "though its own times say otherwise";
  EXPECT_EQ(calls[0], 1);
  EXPECT_EQ(calls[1], 1) << "the first rank calls upon the others to measure";
  ::setenv("KEELSON_TUNE", "off", 1);
  TwoRanks::run(choose_on);
  EXPECT_EQ(chosen[0], 0u);
  EXPECT_EQ(chosen[1], 0u);
  EXPECT_EQ(calls[0] + calls[1], 2);
}

TEST_F(AutotunerTest, KeepsValuesThatAreNoCandidates) {
  auto autotuner = make(), later = make();
  const auto usable = [](const std::string& value) { return value != "unusable"; };
  int measured = 0;
  const auto measure = [&] { return ++measured, std::string("8"); };
  EXPECT_EQ(autotuner.choose_value("bucket", "4", usable, measure), "8");
  EXPECT_EQ(later.choose_value("bucket", "4", usable, measure), "8");
  EXPECT_EQ(measured, 1);
  ::setenv("KEELSON_TUNE", "off", 1);
  EXPECT_EQ(make().choose_value("bucket", "4", usable, measure), "4");
}

}  // namespace
}  // namespace keelson
