#include "apps/lm/text_files.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "engine/base/error.hpp"

namespace keelson::lm {
namespace {

namespace fs = std::filesystem;
using Paths = std::vector<std::string>;

class TextFilesTest : public ::testing::Test {
 protected:
  TextFilesTest() {
    std::string path = ::testing::TempDir() + "keelson-lm-XXXXXX";
    folder_ = mkdtemp(path.data());
  }
  ~TextFilesTest() override { fs::remove_all(folder_); }
  std::string make(const char* name) {
    std::ofstream(folder_ / name) << "a\n";
    return (folder_ / name).string();
  }
  std::string refusal(const TextOptions& o) {
    try {
      find_text_files(o);
    } catch (const InputError& error) {
      return error.what();
    }
    ADD_FAILURE() << "was not refused";
    return "";
  }
  fs::path folder_;
};

TEST_F(TextFilesTest, KnowThePtbLayout) {
  const auto train = make("ptb.train.txt"), valid = make("ptb.valid.txt"), test = make("ptb.test.txt");
  make("train.txt");  // PTB's names win
  const auto files = find_text_files({.data = {folder_.string()}});
  EXPECT_EQ(files.train, Paths{train});
  EXPECT_EQ(files.validation, Paths{valid});
  EXPECT_EQ(files.test, Paths{test});
}

TEST_F(TextFilesTest, KnowPlainNames) {
  const auto train = make("train.txt"), validation = make("validation.txt");
  auto files = find_text_files({.data = {folder_.string()}});
  EXPECT_EQ(files.train, Paths{train});
  EXPECT_EQ(files.validation, Paths{validation});
  EXPECT_EQ(files.test, Paths{});
  const auto valid = make("valid.txt"), test = make("test.txt");
  files = find_text_files({.data = {folder_.string()}});
  EXPECT_EQ(files.validation, Paths{valid});
  EXPECT_EQ(files.test, Paths{test});
}

TEST_F(TextFilesTest, OptionsReplaceASplit) {
  make("train.txt");
  const auto valid = make("valid.txt"), a = make("a.txt"), b = make("b.txt");
  auto files = find_text_files({.data = {folder_.string()}, .train = {a, b}, .test = {b}});
  EXPECT_EQ(files.train, (Paths{a, b}));
  EXPECT_EQ(files.validation, Paths{valid});
  EXPECT_EQ(files.test, Paths{b});
  files = find_text_files({.data = {a, b}});
  EXPECT_EQ(files.train, (Paths{a, b}));
  EXPECT_EQ(files.validation, Paths{});
  EXPECT_EQ(find_text_files({.train = {a}}).train, Paths{a});
}

TEST_F(TextFilesTest, RefuseWhatHasNoTrainingText) {
  EXPECT_NE(refusal({}).find("--data"), std::string::npos);
  EXPECT_NE(refusal({.validation = {make("valid.txt")}}).find("--data"), std::string::npos);
  EXPECT_NE(refusal({.data = {(folder_ / "missing").string()}}).find("missing: does not exist"), std::string::npos);
  EXPECT_NE(refusal({.data = {folder_.string()}}).find("neither ptb.train.txt nor train.txt"), std::string::npos);
  const auto file = make("train.txt");
  EXPECT_NE(refusal({.data = {file, folder_.string()}}).find("Expected one folder, or files"), std::string::npos);
}

}  // namespace
}  // namespace keelson::lm
