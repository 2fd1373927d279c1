#include "backends/detail/tuner.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "engine/base/error.hpp"

namespace keelson::backends {
namespace {

namespace fs = std::filesystem;

/// An algorithm as a GPU meets it.
struct Algorithm {
  double milliseconds = 1;        ///< of its kernels
  int kernels = 1;                ///< that a call queues
  bool runs = true;               ///< else the first call says no
  bool records = true;            ///< else calls in a recording say no, and queue nothing
  bool says_so = true;            ///< else they say yes
  bool breaks_recording = false;  ///< what it queues cannot be recorded
  bool throws = false;            ///< in a recording
};

/// A device whose clock is the sum of what was queued.
class FakeGpu : public TrialDevice {
 public:
  Recording record(const std::function<void()>& work) override {
    recording_ = true, broken_ = false;
    const auto before = queued_;
    queued_ = {};
    try {
      work();
    } catch (...) {
      recording_ = false;
      queued_ = before;
      throw;
    }
    recording_ = false;
    const auto recorded = std::exchange(queued_, before);
    if (broken_) fail("cudaStreamEndCapture failed: the recording was made invalid");
    return {std::make_unique<Graph>(*this, recorded), static_cast<std::size_t>(recorded.kernels)};
  }
  double time(const std::function<void()>& work) override {
    EXPECT_FALSE(recording_);
    queued_ = {};
    work();
    return queued_.milliseconds;
  }
  bool call(const Algorithm& a) {
    if (!a.runs) return false;
    if (recording_ && a.throws) fail("cuDNN's engine failed");
    if (recording_ && a.breaks_recording) broken_ = true;
    if (recording_ && !a.records) return !a.says_so;
    queued_.milliseconds += a.milliseconds;
    queued_.kernels += a.kernels;
    return true;
  }

 private:
  struct Work {
    double milliseconds = 0;
    int kernels = 0;
  };
  class Graph : public CapturedGraph {
   public:
    Graph(FakeGpu& gpu, Work work) : gpu_(gpu), work_(work) {}
    void launch() override { gpu_.queued_.milliseconds += work_.milliseconds; }

   private:
    FakeGpu& gpu_;
    Work work_;
  };

  Work queued_;
  bool recording_ = false, broken_ = false;
};

class TunerTest : public ::testing::Test {
 protected:
  TunerTest() {
    fs::remove_all(folder_);
    ::setenv("KEELSON_CACHE", folder_.c_str(), 1);
    ::unsetenv("KEELSON_TUNE");  // off in the other tests
  }
  ~TunerTest() override {
    ::unsetenv("KEELSON_CACHE");
    ::unsetenv("KEELSON_TUNE");
    fs::remove_all(folder_);
  }

  /// A tuner of a new process.
  std::optional<std::size_t> choose(const std::vector<Algorithm>& algorithms, const std::string& key = "conv") {
    auto gpu = std::make_unique<FakeGpu>();
    auto& device = *gpu;
    Tuner tuner(std::move(gpu), "Card 1-cublasLt-1");
    file_ = tuner.file();
    std::vector<std::string> names;
    for (std::size_t i = 0; i < algorithms.size(); ++i) names.push_back("algorithm " + std::to_string(i));
    calls_ = 0;
    return tuner.choose(key, names, [&](std::size_t i) {
      ++calls_;
      return device.call(algorithms[i]);
    });
  }

  fs::path folder_ = fs::temp_directory_path() / ("keelson-tuner-" + std::to_string(::getpid()));
  fs::path file_;
  int calls_ = 0;
};

TEST_F(TunerTest, TakesTheFastest) {
  EXPECT_EQ(choose({{.milliseconds = 3}, {.milliseconds = 0.01}, {.milliseconds = 2}}), 1U);
  EXPECT_GT(calls_, 0);
  EXPECT_EQ(choose({{.milliseconds = 1}, {.milliseconds = 7}}), 1U) << "known from the file";
  EXPECT_EQ(calls_, 0);
  EXPECT_EQ(choose({{.milliseconds = 1}, {.milliseconds = 7}}, "another conv"), 0U);
}

TEST_F(TunerTest, LeavesOutWhatRefusesToBeRecorded) {
  const Algorithm slow{.milliseconds = 5};
  EXPECT_EQ(choose({slow, {.records = false}}, "says so"), 0U);
  EXPECT_EQ(choose({slow, {.records = false, .says_so = false}}, "records nothing, in silence"), 0U);
  EXPECT_EQ(choose({slow, {.kernels = 0}}, "only copies"), 0U);
  EXPECT_EQ(choose({slow, {.breaks_recording = true}}, "makes the recording invalid"), 0U);
  EXPECT_EQ(choose({slow, {.throws = true}}, "throws"), 0U);
  EXPECT_EQ(choose({slow, {.runs = false}}, "does not run at all"), 0U);
}

TEST_F(TunerTest, SpendsNoTimeOnWhatIsHopeless) {
  EXPECT_EQ(choose({{.milliseconds = 2}, {.milliseconds = 15}}, "close"), 0U);
  const int both = calls_;
  EXPECT_EQ(choose({{.milliseconds = 2}, {.milliseconds = 25}}, "hopeless"), 0U);
  EXPECT_LT(calls_, both);
  EXPECT_EQ(choose({{.milliseconds = 1e-3}, {.milliseconds = 0.5}}, "short"), 0U);
  EXPECT_GT(calls_, both) << "what is short is measured in any case";
}

TEST_F(TunerTest, SaysWhereNoneRuns) {
  EXPECT_EQ(choose({{.runs = false}, {.records = false}, {.kernels = 0}}), std::nullopt);
  EXPECT_EQ(choose({{.runs = false}, {}}), 1U) << "that was not kept";
}

TEST_F(TunerTest, WithoutMeasuringTakesTheFirstThatCanBeRecorded) {
  ::setenv("KEELSON_TUNE", "off", 1);
  EXPECT_EQ(choose({{.runs = false}, {.records = false, .says_so = false}, {.milliseconds = 9}, {}}), 2U);
  EXPECT_EQ(choose({{.runs = false}}), std::nullopt);
  EXPECT_FALSE(fs::exists(file_));
  ::setenv("KEELSON_TUNE", "maybe", 1);
  EXPECT_THROW(choose({{}}), InputError);
}

TEST_F(TunerTest, DoesNotReadTheChoicesOfEarlierRules) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "Card-1-cublasLt-1.json") << R"({"conv": "algorithm 0"})";
  EXPECT_EQ(choose({{.milliseconds = 3}, {.milliseconds = 1}}), 1U);
  EXPECT_EQ(file_.filename(), "Card-1-cublasLt-1-v2.json");
  EXPECT_TRUE(fs::exists(file_));
}

TEST_F(TunerTest, LetsWhatIsNoRefusalPass) {
  Tuner tuner(std::make_unique<FakeGpu>(), "Card 1");
  struct NoMemory {};
  EXPECT_THROW(tuner.choose("conv", {"a"}, [](std::size_t) -> bool { throw NoMemory(); }), NoMemory);
}

}  // namespace
}  // namespace keelson::backends
