#include "engine/tune/captured_graph_timer.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "engine/base/error.hpp"
#include "engine/tune/autotuner.hpp"
#include "tests/support/choice_folder.hpp"

namespace keelson {
namespace {

/// An algorithm as a GPU meets it.
struct Algorithm {
  double milliseconds = 1;      ///< of its kernels
  int kernels = 1;              ///< that a call queues
  bool runs = true;             ///< else the first call says no
  bool captures = true;         ///< else calls in a capture say no, and queue nothing
  bool says_so = true;          ///< else they say yes
  bool breaks_capture = false;  ///< what it queues cannot be captured
  bool throws = false;          ///< in a capture
};

/// A device whose clock is the sum of what was queued.
class FakeGpu : public CapturingDevice {
 public:
  CapturedWork capture(const std::function<void()>& work) override {
    capturing_ = true, broken_ = false;
    const auto before = queued_;
    queued_ = {};
    try {
      work();
    } catch (...) {
      capturing_ = false;
      queued_ = before;
      throw;
    }
    capturing_ = false;
    const auto captured = std::exchange(queued_, before);
    if (broken_) fail("cudaStreamEndCapture failed: the capture was made invalid");
    return {[this, captured] { queued_.milliseconds += captured.milliseconds; },
            static_cast<std::size_t>(captured.kernels)};
  }
  double time(const std::function<void()>& work) override {
    EXPECT_FALSE(capturing_);
    queued_ = {};
    work();
    return queued_.milliseconds * 1e-3;
  }
  bool call(const Algorithm& a) {
    if (!a.runs) return false;
    if (capturing_ && a.throws) fail("cuDNN's engine failed");
    if (capturing_ && a.breaks_capture) broken_ = true;
    if (capturing_ && !a.captures) return !a.says_so;
    queued_.milliseconds += a.milliseconds;
    queued_.kernels += a.kernels;
    return true;
  }

 private:
  struct Work {
    double milliseconds = 0;
    int kernels = 0;
  };
  Work queued_;
  bool capturing_ = false, broken_ = false;
};

class CapturedGraphTimerTest : public ::testing::Test {
 protected:
  /// By an autotuner of a new process.
  std::optional<std::size_t> choose(const std::vector<Algorithm>& algorithms, const std::string& key = "conv") {
    auto gpu = std::make_unique<FakeGpu>();
    auto& device = *gpu;
    Autotuner autotuner("Card 1-cublasLt-1", std::make_unique<CapturedGraphTimer>(std::move(gpu)));
    file_ = autotuner.file();
    std::vector<std::string> names;
    for (std::size_t i = 0; i < algorithms.size(); ++i) names.push_back("algorithm " + std::to_string(i));
    calls_ = 0;
    const auto run = [&](std::size_t i) {
      ++calls_;
      return device.call(algorithms[i]);
    };
    return autotuner.choose(key, "", names, {run});
  }

  const testing::ChoiceFolder folder_{"captured-graphs"};
  std::filesystem::path file_;
  int calls_ = 0;
};

TEST_F(CapturedGraphTimerTest, TakesTheFastest) {
  EXPECT_EQ(choose({{.milliseconds = 3}, {.milliseconds = 0.01}, {.milliseconds = 2}}), 1U);
  EXPECT_GT(calls_, 0);
  EXPECT_EQ(choose({{.milliseconds = 1}, {.milliseconds = 7}, {.milliseconds = 2}}), 1U) << "known from the file";
  EXPECT_EQ(calls_, 0);
  EXPECT_EQ(choose({{.milliseconds = 1}, {.milliseconds = 7}}, "another conv"), 0U);
}

TEST_F(CapturedGraphTimerTest, LeavesOutWhatRefusesToBeCaptured) {
  const Algorithm slow{.milliseconds = 5};
  EXPECT_EQ(choose({slow, {.captures = false}}, "says so"), 0U);
  EXPECT_EQ(choose({slow, {.captures = false, .says_so = false}}, "captures nothing, in silence"), 0U);
  EXPECT_EQ(choose({slow, {.kernels = 0}}, "only copies"), 0U);
  EXPECT_EQ(choose({slow, {.breaks_capture = true}}, "makes the capture invalid"), 0U);
  EXPECT_EQ(choose({slow, {.throws = true}}, "throws"), 0U);
  EXPECT_EQ(choose({slow, {.runs = false}}, "does not run at all"), 0U);
}

TEST_F(CapturedGraphTimerTest, SpendsNoTimeOnWhatIsHopeless) {
  EXPECT_EQ(choose({{.milliseconds = 2}, {.milliseconds = 15}}, "close"), 0U);
  const int both = calls_;
  EXPECT_EQ(choose({{.milliseconds = 2}, {.milliseconds = 25}}, "hopeless"), 0U);
  EXPECT_LT(calls_, both);
  EXPECT_EQ(choose({{.milliseconds = 1e-3}, {.milliseconds = 0.5}}, "short"), 0U);
  EXPECT_GT(calls_, both) << "what is short is measured in any case";
}

TEST_F(CapturedGraphTimerTest, SaysWhereNoneRuns) {
  EXPECT_EQ(choose({{.runs = false}, {.captures = false}, {.kernels = 0}}), std::nullopt);
  EXPECT_EQ(choose({{.runs = false}, {}}), 1U) << "that was not kept";
}

TEST_F(CapturedGraphTimerTest, WithoutMeasuringTakesTheFirstThatCanBeCaptured) {
  ::setenv("KEELSON_TUNE", "off", 1);
  EXPECT_EQ(choose({{.runs = false}, {.captures = false, .says_so = false}, {.milliseconds = 9}, {}}), 2U);
  EXPECT_EQ(choose({{.runs = false}}), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(file_));
  ::setenv("KEELSON_TUNE", "maybe", 1);
  EXPECT_THROW(choose({{}}), InputError);
}

TEST_F(CapturedGraphTimerTest, LetsWhatIsNoRefusalPass) {
  CapturedGraphTimer timer(std::make_unique<FakeGpu>());
  struct NoMemory {};
  EXPECT_THROW(timer.time(1, [](std::size_t) -> bool { throw NoMemory(); }), NoMemory);
}

}  // namespace
}  // namespace keelson
