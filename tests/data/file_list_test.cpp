#include "engine/data/files/file_list.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "engine/base/error.hpp"
#include "engine/data/files/find_files.hpp"
#include "tests/support/data_files.hpp"

namespace keelson {
namespace {

std::vector<std::string> paths_of(const FileList& list) {
  std::vector<std::string> paths;
  for (std::int64_t i = 0; i < list.size(); ++i) paths.push_back(list.path(i));
  return paths;
}

/// Where TFRecords cannot be read, the message says what to do.
TEST(FindFiles, SaysWhatToDoWithOtherForms) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder / "a.tfrecord.gz", "bytes");
  for (const std::string& path : {folder.path(), folder / "a.tfrecord.gz"}) {
    const auto message = testing::message_of<InputError>([&] { find_hdf5_files(path); });
    EXPECT_NE(message.find("TFRecords are read as universes alone"), std::string::npos) << message;
  }
  EXPECT_EQ(find_files(folder.path(), {hdf5_form(), tfrecord_form()}).size(), 1u);
}

TEST(FileList, HasWhatFindingFinds) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "b1/deep");
  std::filesystem::create_directories(folder / "b2");
  for (const char* name : {"a.h5", "b1/x.h5", "b1/deep/y.hdf5", "b2/x.h5", "b2/ä long name, with spaces.h5"})
    testing::write_file(folder / name, "bytes");
  for (const char* path : {"", "/", "b1", "a.h5", "b?/x.h5", "*/*.h5", "b[12]/x*"}) {
    const std::string whole = folder.path() + (*path == 0 || *path == '/' ? path : std::string("/") + path);
    const FileList list(whole, nullptr, find_hdf5_files);
    EXPECT_EQ(paths_of(list), find_hdf5_files(whole)) << path;
  }
  const FileList list(folder / "b?/x.h5", nullptr, find_hdf5_files);
  EXPECT_EQ(list.folder(), folder.path());
  EXPECT_EQ(list.name(1), "b2/x.h5");
  EXPECT_THROW(list.name(2), Error);
  EXPECT_THROW(list.name(-1), Error);
  // The same names in another folder are the same list.
  const testing::TemporaryFolder other;
  std::filesystem::copy(folder.path(), other.path(), std::filesystem::copy_options::recursive);
  EXPECT_EQ(FileList(folder.path(), nullptr, find_hdf5_files).digest(),
            FileList(other.path(), nullptr, find_hdf5_files).digest());
  std::filesystem::rename(other / "a.h5", other / "c.h5");
  EXPECT_NE(FileList(folder.path(), nullptr, find_hdf5_files).digest(),
            FileList(other.path(), nullptr, find_hdf5_files).digest());
}

/// Of a part of the files, there are copies in another folder.
TEST(FileList, NamesCopies) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "b");
  for (const char* name : {"a.h5", "b/x.h5", "b/y.h5", "c.h5"}) testing::write_file(folder / name, "bytes");
  const FileList source(folder.path(), nullptr, find_hdf5_files);
  FileCopies copies{"/local", StagePlan(4, StageMode::shard, 0, 3, 2), 1, source.digest()};
  const FileList list(folder.path(), nullptr, find_hdf5_files, std::make_shared<const FileCopies>(copies));
  int copied = 0;
  for (std::int64_t i = 0; i < list.size(); ++i) {
    const bool here = copies.plan.owner(i) == 1;
    copied += here ? 1 : 0;
    EXPECT_EQ(list.is_copied(i), here);
    EXPECT_EQ(list.path(i), here ? "/local/" + list.name(i) : source.path(i));
    EXPECT_EQ(list.folder_of(i), here ? "/local" : folder.path());
  }
  EXPECT_EQ(copied, 2);
  EXPECT_EQ(list.digest(), source.digest());
  copies.digest = 1;
  const auto said = testing::message_of<InputError>(
      [&] { FileList(folder.path(), nullptr, find_hdf5_files, std::make_shared<const FileCopies>(copies)); });
  EXPECT_NE(said.find("holds other files than when they were copied to /local"), std::string::npos) << said;
}

TEST(FileList, KeepsNoNameInTheRanksOwnMemory) {
  const std::string folder = "data/";
  const auto list_of = [&](int files) {
    return FileList("data/*.h5", nullptr, [&](const std::string&) {
      std::vector<std::string> found;
      for (int i = 0; i < files; ++i) found.push_back(fmt::format("{}{:08}.h5", folder, i));
      return found;
    });
  };
  const auto list = list_of(10000);
  EXPECT_EQ(list.shared_bytes(), 10000 * (8 + 11));
  EXPECT_EQ(list.path(9999), "data/00009999.h5");
}

}  // namespace
}  // namespace keelson
