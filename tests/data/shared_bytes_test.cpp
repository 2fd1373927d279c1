#include "engine/data/files/shared_bytes.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/data/files/crc32c.hpp"
#include "tests/support/data_files.hpp"

namespace keelson {
namespace {

/// Sets TMPDIR as long as it lives.
class TmpDir {
 public:
  explicit TmpDir(const std::string& folder) {
    if (const char* before = getenv("TMPDIR")) before_ = before;
    setenv("TMPDIR", folder.c_str(), 1);
  }
  ~TmpDir() {
    if (before_.empty())
      unsetenv("TMPDIR");
    else
      setenv("TMPDIR", before_.c_str(), 1);
  }

 private:
  std::string before_;
};

TEST(SharedBytes, HoldWhatIsAppendedAndLeaveNoFile) {
  const testing::TemporaryFolder folder;
  const TmpDir tmp(folder.path());
  SharedBytes shared(nullptr);
  std::vector<char> all;
  for (const std::size_t n : {5u, 0u, 3000000u, 1u}) {
    std::vector<char> part(n);
    for (std::size_t i = 0; i < n; ++i) part[i] = static_cast<char>(i * 7 + all.size());
    shared.append(part.data(), n, 0);
    all.insert(all.end(), part.begin(), part.end());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  shared.finish();
  const SharedBytes moved = std::move(shared);
  ASSERT_EQ(moved.bytes().size(), all.size());
  EXPECT_EQ(std::memcmp(moved.bytes().data(), all.data(), all.size()), 0);
  EXPECT_EQ(moved.digest(), crc32c(all.data(), all.size()));
}

TEST(SharedBytes, MayBeEmpty) {
  SharedBytes shared(nullptr);
  shared.finish();
  EXPECT_TRUE(shared.bytes().empty());
}

TEST(SharedBytes, NameTheFolderThatCannotBeWritten) {
  const testing::TemporaryFolder folder;
  const TmpDir tmp(folder / "gone");
  const auto message = testing::message_of<InputError>([] { SharedBytes shared(nullptr); });
  EXPECT_NE(message.find(folder / "gone"), std::string::npos) << message;
  EXPECT_NE(message.find("TMPDIR"), std::string::npos) << message;
}

}  // namespace
}  // namespace keelson
