#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <semaphore>

#include "engine/train/checkpoint/checkpoint_writer.hpp"
#include "tests/support/contexts.hpp"
#include "tests/train/support.hpp"

/// What the disk does before it takes the next part of a file.
static std::function<void()> before_part;  // NOLINT(cert-err58-cpp)

/// In the place of the C library's.
extern "C" int fdatasync(int fd) {
  if (before_part) before_part();
  return static_cast<int>(::syscall(SYS_fdatasync, fd));
}

namespace keelson::testing {
namespace {

/// While this lives, the disk does this before each part.
struct SlowDisk {
  explicit SlowDisk(std::function<void()> wait) { before_part = std::move(wait); }
  ~SlowDisk() { before_part = nullptr; }
};

TEST(SlowDisk, WhoWaitsForACheckpointSeesWhetherTheDiskTakesIt) {
  const Folder folder;
  std::counting_semaphore<> allowed(0);
  const SlowDisk disk([&] { allowed.acquire(); });
  auto copy = std::make_shared<CheckpointCopy>();
  copy->arrays.push_back({"/parameters/dense/weights", {9'000'000}, std::vector<float>(9'000'000, 1.0f)});
  CheckpointWriter writer(CheckpointFolder(folder.path(), 1));
  EXPECT_TRUE(writer.wait_for(0)) << "nothing is being written";
  writer.start(copy);
  for (int part = 1; part <= 2; ++part) {
    allowed.release();
    EXPECT_FALSE(writer.wait_for(0)) << part;
  }
  auto stuck = std::async(std::launch::async, [&] { return writer.wait_for(0); });
  EXPECT_EQ(stuck.wait_for(std::chrono::milliseconds(30)), std::future_status::timeout) << "the disk takes nothing";
  allowed.release(1000);
  stuck.get();
  while (!writer.wait_for(1)) continue;
  EXPECT_EQ(writer.take(false)->path, folder / "step-0000000000.h5");
}

/// One rank, which counts what it tells others.
class Talker final : public Communicator {
 public:
  const RankInfo& info() const override { return info_; }
  std::unique_ptr<Communicator> split(int, int) override { return nullptr; }
  void barrier() override {}
  void broadcast(void*, std::size_t, int) override {
    const std::lock_guard lock(mutex_);
    ++told_;
    moved_.notify_all();
  }
  void reduce(void*, Number, std::size_t, Reduction) override {}
  std::vector<std::string> allgather(const std::string& text) override { return {text}; }
  std::vector<float> gather(const std::vector<float>& mine, int) override { return mine; }

  /// Waits until this rank has told something since the call before. False: that takes too long.
  bool tells_again() {
    std::unique_lock lock(mutex_);
    const bool told = moved_.wait_for(lock, std::chrono::seconds(20), [this] { return told_ > heard_; });
    heard_ = told_;
    return told;
  }

 private:
  std::unique_ptr<Collective> implement(const CollectiveDesc&) override { return nullptr; }
  RankInfo info_{.host = "here"};
  std::mutex mutex_;
  std::condition_variable moved_;
  int told_ = 0, heard_ = 0;
};

/// The others' watchdogs take a rank for dead that is silent for long. The disk takes the next part when rank 0 has
/// told them of the one before.
TEST(SlowDisk, RankZeroTellsTheOthersThatItsCheckpointGoesOn) {
  const Folder folder;
  Talker talker;
  int parts = 0, silent = 0;
  const SlowDisk disk([&] {
    if (parts++ > 0 && silent == 0 && !talker.tells_again()) ++silent;
  });
  auto o = small_options();
  o.checkpoints.folder = folder.path();
  o.max_steps = 0;
  const auto graph = small_network(0, 27'000);  // 35 MB with the momentum
  Parameters parameters(graph, context(network_contexts().back()), o.seed);
  const CubeDataset data(8);
  Trainer trainer(graph, parameters, data, nullptr, &talker, o);
  trainer.run();
  EXPECT_GE(parts, 3);
  EXPECT_EQ(silent, 0);
  EXPECT_EQ(folder.files(), std::vector<std::string>{"step-0000000000.h5"});
}

}  // namespace
}  // namespace keelson::testing
