#include "engine/base/atomic_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "engine/base/error.hpp"

namespace keelson {
namespace {
namespace fs = std::filesystem;

constexpr const char* hdf5_signature = "\x89HDF\r\n\x1a\n";

class AtomicFileTest : public ::testing::Test {
 protected:
  AtomicFileTest() {
    auto name = (fs::temp_directory_path() / "keelson-atomic-XXXXXX").string();
    if (!::mkdtemp(name.data())) std::abort();
    folder_ = name;
  }
  ~AtomicFileTest() override { fs::remove_all(folder_); }

  static std::string content(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  static void put(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }
  static std::string message(const fs::path& file, Target target) {
    try {
      write_atomically(file, "new", target);
    } catch (const InputError& error) {
      return error.what();
    }
    return "(written)";
  }
  void expect_refused(const fs::path& file, Target target, const std::string& why) const {
    const auto before = fs::is_regular_file(file) ? content(file) : "";
    const auto said = message(file, target);
    EXPECT_NE(said.find(why), std::string::npos) << said;
    EXPECT_EQ(fs::is_regular_file(file) ? content(file) : "", before);
  }
  std::int64_t files() const { return std::distance(fs::directory_iterator(folder_), fs::directory_iterator()); }

  fs::path folder_;
};

TEST_F(AtomicFileTest, ReplacesAFile) {
  put(folder_ / "a", "old");
  write_atomically(folder_ / "a", "new");
  write_atomically(folder_ / "b", "other", Target::output);
  EXPECT_EQ(content(folder_ / "a"), "new");
  EXPECT_EQ(content(folder_ / "b"), "other");
  {
    const AtomicFile given_up(folder_ / "a");
    put(given_up.temporary(), "half");
  }
  EXPECT_EQ(content(folder_ / "a"), "new");
  EXPECT_EQ(files(), 2);
}

TEST_F(AtomicFileTest, FollowsSymbolicLinks) {
  fs::create_directory(folder_ / "elsewhere");
  put(folder_ / "elsewhere/a", "old");
  fs::create_symlink("elsewhere/a", folder_ / "first");
  fs::create_symlink(folder_ / "first", folder_ / "second");
  fs::create_symlink("elsewhere/not yet", folder_ / "dangling");
  for (const char* name : {"second", "dangling"}) {
    write_atomically(folder_ / name, name, Target::output);
    EXPECT_TRUE(fs::is_symlink(folder_ / name)) << name;
    EXPECT_EQ(content(folder_ / name), name);
  }
  EXPECT_TRUE(fs::is_symlink(folder_ / "first"));
  EXPECT_EQ(content(folder_ / "elsewhere/a"), "second");
  EXPECT_EQ(content(folder_ / "elsewhere/not yet"), "dangling");
  EXPECT_EQ(files(), 4) << "nothing temporary is left";
}

TEST_F(AtomicFileTest, WritesIntoAPipe) {
  const auto pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink("pipe", folder_ / "link");
  const std::string text(300'000, 'x');  // more than a pipe holds
  for (const auto& name : {pipe, folder_ / "link"}) {
    std::string read;
    std::thread reader([&] { read = content(pipe); });
    write_atomically(name, text, Target::output);
    reader.join();
    EXPECT_EQ(read, text);
    EXPECT_TRUE(fs::is_fifo(pipe));
  }
  expect_refused(pipe, Target::own, "is a pipe or a device");
  expect_refused(pipe, Target::hdf5, "is a pipe or a device");
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(files(), 2);
}

TEST_F(AtomicFileTest, AReaderThatLeavesIsAnError) {
  const auto pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread reader([&] {
    const int fd = ::open(pipe.c_str(), O_RDONLY);
    char byte = 0;
    EXPECT_EQ(::read(fd, &byte, 1), 1);
    ::close(fd);
  });
  EXPECT_THROW(write_atomically(pipe, std::string(1 << 20, 'x'), Target::output), Error);  // and no signal
  reader.join();
}

TEST_F(AtomicFileTest, WritesIntoADevice) {
  const auto device = folder_ / "null";
  constexpr int null_major = 1, null_minor = 3;  // as /dev/null
  if (::mknod(device.c_str(), S_IFCHR | 0600, makedev(null_major, null_minor)) != 0)
    GTEST_SKIP() << "needs a device of its own: mknod: " << std::strerror(errno);
  const int fd = ::open(device.c_str(), O_WRONLY);
  if (fd < 0) GTEST_SKIP() << "the file system of " << folder_ << " takes no devices: " << std::strerror(errno);
  ::close(fd);
  write_atomically(device, "new", Target::output);
  EXPECT_TRUE(fs::is_character_file(device));
  expect_refused(device, Target::own, "is a pipe or a device");
  EXPECT_TRUE(fs::is_character_file(device));
  EXPECT_EQ(files(), 1);
}

TEST_F(AtomicFileTest, GoesOnWithAFileThatIsOpen) {
  const int fd = ::open((folder_ / "out").c_str(), O_WRONLY | O_CREAT, 0600);  // as a shell's `> out`
  ASSERT_EQ(::write(fd, "before ", 7), 7);
  write_atomically("/proc/self/fd/" + std::to_string(fd), "new", Target::output);
  ASSERT_EQ(::write(fd, " behind", 7), 7);
  ::close(fd);
  EXPECT_EQ(content(folder_ / "out"), "before new behind");
}

TEST_F(AtomicFileTest, NeverReplacesAnInput) {
  put(folder_ / "text.txt", "words");
  put(folder_ / "other.txt", "words");
  fs::create_hard_link(folder_ / "text.txt", folder_ / "hard");
  fs::create_symlink("text.txt", folder_ / "soft");
  protect_input(folder_ / "soft");
  protect_input(folder_);
  protect_input(folder_ / "missing");
  for (const char* name : {"text.txt", "hard", "soft"})
    for (const auto target : {Target::own, Target::hdf5, Target::output})
      expect_refused(folder_ / name, target, "is an input of this command");
  EXPECT_EQ(message(folder_ / "other.txt", Target::output), "(written)");
  EXPECT_EQ(message(folder_ / "missing", Target::output), "(written)");
}

TEST_F(AtomicFileTest, ReplacesAFileOfHdf5ByHdf5Alone) {
  put(folder_ / "best.h5", std::string(hdf5_signature) + "a checkpoint");
  fs::create_hard_link(folder_ / "best.h5", folder_ / "step.h5");
  fs::create_symlink("best.h5", folder_ / "link");
  for (const char* name : {"best.h5", "step.h5", "link"}) {
    expect_refused(folder_ / name, Target::output, "is an HDF5 file");
    expect_refused(folder_ / name, Target::own, "is an HDF5 file");
  }
  EXPECT_EQ(message(folder_ / "best.h5", Target::hdf5), "(written)");
}

TEST_F(AtomicFileTest, WritesNoOutputBesideCheckpoints) {
  fs::create_directories(folder_ / "run/checkpoints/abandoned-1");
  fs::create_directories(folder_ / "run/checkpoints/figures");
  fs::create_directory_symlink("run/checkpoints", folder_ / "link");
  fs::create_symlink("run/checkpoints/best.h5", folder_ / "dangling");
  put(folder_ / "run/checkpoints/notes.txt", "old");
  for (const char* name : {"run/checkpoints/best.h5", "run/checkpoints/notes.txt", "run/checkpoints/abandoned-1/a.onnx",
                           "run/checkpoints/figures/../a.onnx", "link/a.onnx", "dangling", "new/checkpoints/a.onnx"})
    expect_refused(folder_ / name, Target::output, "is in a folder of checkpoints, where only runs write");
  EXPECT_EQ(message(folder_ / "run/checkpoints/figures/a.svg", Target::output), "(written)");
  EXPECT_EQ(message(folder_ / "run/a.onnx", Target::output), "(written)");
  EXPECT_EQ(message(folder_ / "run/checkpoints/notes.txt", Target::own), "(written)");
}

TEST_F(AtomicFileTest, RefusesAFolder) {
  for (const auto target : {Target::own, Target::hdf5, Target::output})
    expect_refused(folder_, target, "is a folder; expected the name of a file");
}

TEST_F(AtomicFileTest, ASecondNameReplacesNoPipe) {
  put(folder_ / "a", "a");
  put(folder_ / "b", "b");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  link_atomically(folder_ / "a", folder_ / "b");
  link_atomically(folder_ / "a", folder_ / "b");
  EXPECT_EQ(content(folder_ / "b"), "a");
  EXPECT_THROW(link_atomically(folder_ / "a", folder_ / "pipe"), InputError);
  EXPECT_EQ(files(), 3);
}

}  // namespace
}  // namespace keelson
