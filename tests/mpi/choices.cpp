#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/registry.hpp"

#include "engine/base/environment.hpp"
#include "engine/layers/layers.hpp"
#include "engine/plan/memory_needs.hpp"
#include "engine/plan/plan.hpp"
#include "engine/tune/autotuner.hpp"
#include "tests/mpi/world.hpp"

/// Ranks that have measured different algorithms to be the fastest.
namespace keelson::testing {
namespace {
namespace fs = std::filesystem;

class Choices : public MpiTest {
 protected:
  Choices() : cache_(environment("KEELSON_CACHE")) {
    std::string stem = (fs::temp_directory_path() / ("keelson-choices-" + std::to_string(::getpid()))).string();
    folder_ = stem;  // of this rank alone
    fs::remove_all(folder_);
    ::setenv("KEELSON_TUNE", "on", 1);
    ::setenv("KEELSON_CACHE", folder_.c_str(), 1);
  }
  ~Choices() override {
    ::setenv("KEELSON_TUNE", "off", 1);
    ::setenv("KEELSON_CACHE", cache_.c_str(), 1);
    fs::remove_all(folder_);
  }

  static Graph network() {
    Graph g;
    const Var x = g.input("x", {16, 12, 12}), y = g.input("y", {1});
    Var h = conv(x, {.filters = 16});
    h = dense(flatten(h), 1);
    mse(h, y);
    return g;
  }

  /// The kernels of the plan, in a context of its own, which reads the choices anew.
  static std::string kernels(Communicator* peers) {
    const auto context = backends::make_context();
    const Graph g = network();
    Parameters parameters(g, *context, 1);
    PlanOptions o;
    o.peers = peers;
    std::string all;
    for (const auto& row : Plan(g, parameters, o).rows()) all += row.kernel + "\n";
    return all;
  }

  /// Replaces each choice in this rank's files by another of the candidates, which the keys list.
  void change_choices() const {
    for (const auto& file : fs::directory_iterator(folder_)) {
      if (file.path().extension() != ".json") continue;
      auto choices = nlohmann::json::parse(std::ifstream(file.path()));
      for (auto& [key, choice] : choices.items()) {
        const auto list = key.substr(key.find(", of ") + 5), last = list.substr(list.rfind(" | ") + 3),
                   first = list.substr(0, list.find(" | "));
        choice = choice.get<std::string>() == last ? first : last;
      }
      std::ofstream(file.path()) << choices;
    }
  }

  std::string cache_;
  fs::path folder_;
};

/// These tests run with other numbers of threads on the ranks, too.
TEST_F(Choices, AreThoseOfTheFirstRank) {
  if (!backends::make_context()->device().autotuner()) GTEST_SKIP() << "this device measures elsewhere";
  const auto own = kernels(nullptr);
  if (rank() > 0) {
    change_choices();
    EXPECT_NE(kernels(nullptr), own);
  }
  const auto of_all = world().allgather(kernels(&world()));
  for (const auto& one : of_all) EXPECT_EQ(one, of_all[0]);
  EXPECT_TRUE(rank() > 0 || of_all[0] == own);
}

TEST_F(Choices, AreThoseOfTheFirstRankWhereOthersDoNotMeasure) {
  if (!backends::make_context()->device().autotuner()) GTEST_SKIP() << "this device measures elsewhere";
  const auto thumb = [] {
    ::setenv("KEELSON_TUNE", "off", 1);
    return kernels(nullptr);
  }();
  if (rank() == 0) {
    ::setenv("KEELSON_TUNE", "on", 1);
    kernels(nullptr);
    change_choices();
    if (kernels(nullptr) == thumb) change_choices();
    EXPECT_NE(kernels(nullptr), thumb);
  }
  for (const auto& one : world().allgather(kernels(&world()))) EXPECT_NE(one, thumb);
}

TEST_F(Choices, AreRulesOfThumbWhereTheFirstRankDoesNotMeasure) {
  if (!backends::make_context()->device().autotuner()) GTEST_SKIP() << "this device measures elsewhere";
  ::setenv("KEELSON_TUNE", "off", 1);
  const auto thumb = kernels(nullptr);
  if (rank() > 0) {
    ::setenv("KEELSON_TUNE", "on", 1);
    kernels(nullptr);
    change_choices();
  }
  for (const auto& one : world().allgather(kernels(&world()))) EXPECT_EQ(one, thumb);
}

/// The ranks that had room for their plan are elsewhere.
TEST_F(Choices, AreNeitherMadeNorSharedToTellMemoryNeeds) {
  const auto context = backends::make_context();
  PlanOptions o;
  o.peers = &world();
  if (rank() == 0) {
    EXPECT_NE(describe_memory_needs(network(), *context, o).find("a batch of 1 needs"), std::string::npos);
    if (const auto* chooser = context->device().autotuner()) {
      EXPECT_EQ(chooser->seconds(), 0);
    }
  }
  std::int64_t word = rank() == 0 ? 7 : 0;
  world().broadcast(&word, sizeof word, 0);
  EXPECT_EQ(word, 7);
}

}  // namespace
}  // namespace keelson::testing
