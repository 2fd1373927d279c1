#include "engine/train/checkpoint/checkpoint_writer.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "engine/base/error.hpp"
#include "tests/train/support.hpp"

namespace keelson::testing {
namespace {

std::shared_ptr<CheckpointCopy> copy_after(std::int64_t step, std::int64_t values, bool best = false) {
  auto copy = std::make_shared<CheckpointCopy>();
  copy->state.step = step;
  copy->parameters = {"dense/weights"};
  copy->arrays.push_back(
      {"/parameters/dense/weights", {values}, std::vector<float>(static_cast<std::size_t>(values), 1.0f)});
  copy->best = best;
  return copy;
}

TEST(CheckpointWriter, TellsOnceOfEachThatItHasWritten) {
  const Folder folder;
  const CheckpointFolder checkpoints(folder.path(), 2);
  CheckpointWriter writer(checkpoints);
  EXPECT_FALSE(writer.take(true));
  for (std::int64_t step = 1; step <= 3; ++step) {
    writer.start(copy_after(step, 1000, step == 2));
    const auto written = writer.take(true);
    ASSERT_TRUE(written);
    EXPECT_EQ(written->copy->state.step, step);
    EXPECT_EQ(written->path, checkpoints.path_of(step));
    EXPECT_FALSE(writer.take(true));
  }
  EXPECT_EQ(folder.files(), (std::vector<std::string>{"best.h5", "step-0000000002.h5", "step-0000000003.h5"}));
}

TEST(CheckpointWriter, WritesTheLastOneBeforeItEnds) {
  const Folder folder;
  constexpr std::int64_t values = 12'000'000;
  CheckpointWriter(CheckpointFolder(folder.path(), 1)).start(copy_after(7, values));
  EXPECT_GT(std::filesystem::file_size(folder / "step-0000000007.h5"), values * sizeof(float));
  EXPECT_EQ(read_run_state(folder / "step-0000000007.h5").step, 7);
}

TEST(CheckpointWriter, SaysWhatWentWrongToWhoWaits) {
  const Folder folder;
  std::ofstream(folder / "file") << "in the way";
  CheckpointWriter writer(CheckpointFolder(folder / "file", 1));
  writer.start(copy_after(1, 10));
  while (!writer.failed()) EXPECT_FALSE(writer.take(false));
  EXPECT_THROW(writer.take(true), Error);
  EXPECT_FALSE(writer.failed());
  EXPECT_FALSE(writer.take(true));
}

}  // namespace
}  // namespace keelson::testing
