#include "apps/common/run_folder.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "comm/communicators.hpp"
#include "tests/train/support.hpp"

namespace keelson::app {
namespace {

namespace fs = std::filesystem;
using testing::Folder;
using testing::message_of;

/// A folder with a run of one checkpoint.
struct HeldFolder {
  HeldFolder() {
    fs::create_directories(run.checkpoints());
    std::ofstream(checkpoint) << "a checkpoint";
    std::ofstream(run.metrics()) << "{}\n";
  }
  Folder folder;
  RunFolder run{folder / "run"};
  fs::path checkpoint = run.checkpoints() / "step-0000000004.h5";
};

TEST(RunFolder, GoesOnFromItsOwnCheckpointsAlone) {
  const HeldFolder a, b;
  EXPECT_TRUE(a.run.holds(a.checkpoint));
  EXPECT_TRUE(a.run.holds(a.run.checkpoints() / "gone-meanwhile.h5"));
  EXPECT_TRUE(a.run.holds(a.run.path / "copied.h5"));
  fs::create_directory_symlink(a.run.path, a.folder / "link");
  EXPECT_TRUE(RunFolder{a.folder / "link"}.holds(a.checkpoint));
  for (const auto& other : {b.checkpoint, a.run.checkpoints() / "abandoned-1/step-0000000004.h5", fs::path()})
    EXPECT_FALSE(a.run.holds(other)) << other;
  EXPECT_FALSE(RunFolder{a.folder / "new"}.holds(a.checkpoint));
}

TEST(RunFolder, RefusesAnotherRun) {
  const HeldFolder a, b;
  const auto self = comm::make_self();
  a.run.check(*self, a.checkpoint, false);
  a.run.check(*self, b.checkpoint, true);
  RunFolder{a.folder / "new"}.check(*self, b.checkpoint, false);
  const auto text = message_of<InputError>([&] { a.run.check(*self, b.checkpoint, false); });
  EXPECT_NE(text.find("holds another run than that of " + b.checkpoint.string() + ", which --resume names"), text.npos)
      << text;
  EXPECT_NE(message_of<InputError>([&] { a.run.check(*self, "", false); }).find("holds a run already"), text.npos);
}

TEST(RunFolder, ReplacesNothingThatWasSetAside) {
  const HeldFolder a;
  const auto aside = a.run.checkpoints() / "abandoned-1";
  fs::create_directory(aside);
  std::ofstream(aside / "step-0000000009.h5") << "another";
  a.run.prepare(true);
  EXPECT_TRUE(fs::exists(a.checkpoint) && fs::exists(a.run.metrics()));
  a.run.prepare(false);
  EXPECT_FALSE(fs::exists(a.checkpoint) || fs::exists(a.run.metrics()));
  EXPECT_TRUE(fs::exists(aside / "step-0000000009.h5"));
}

}  // namespace
}  // namespace keelson::app
