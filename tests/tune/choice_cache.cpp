#include "engine/tune/choice_cache.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace keelson {
namespace {
namespace fs = std::filesystem;

class ChoiceCacheTest : public ::testing::Test {
 protected:
  ChoiceCacheTest() { fs::remove_all(folder_); }
  ~ChoiceCacheTest() override { fs::remove_all(folder_); }

  static bool any(const std::string&) { return true; }
  /// Chooses `choice` where nothing is known, and counts how often.
  std::string choose(ChoiceCache& cache, const std::string& key, const std::string& choice) {
    return cache.choose(key, any, [&] {
      ++measured_;
      return choice;
    });
  }
  void write(const std::string& text) {
    fs::create_directories(folder_);
    std::ofstream(file_) << text;
  }

  fs::path folder_ = fs::temp_directory_path() / ("keelson-choices-" + std::to_string(::getpid()));
  fs::path file_ = folder_ / "below" / "card.json";
  int measured_ = 0;
};

TEST_F(ChoiceCacheTest, MeasuresOnce) {
  ChoiceCache cache(file_), later(file_);
  EXPECT_EQ(choose(cache, "a", "fast"), "fast");
  EXPECT_EQ(choose(cache, "a", "slow"), "fast");
  EXPECT_EQ(choose(later, "a", "slow"), "fast");
  EXPECT_EQ(measured_, 1);
  EXPECT_EQ(choose(later, "b", "slow"), "slow");
  ChoiceCache last(file_);
  EXPECT_EQ(choose(last, "a", "other") + choose(last, "b", "other"), "fastslow");
  EXPECT_EQ(measured_, 2);
}

TEST_F(ChoiceCacheTest, MeasuresAgainWhatCannotBeUsed) {
  ChoiceCache cache(file_), later(file_);
  choose(cache, "a", "gone");
  const auto usable = [](const std::string& choice) { return choice != "gone"; };
  EXPECT_EQ(later.choose("a", usable, [] { return "new"; }), "new");
  EXPECT_EQ(cache.choose("a", usable, [] { return "newer"; }), "new") << "what another process wrote since";
}

TEST_F(ChoiceCacheTest, KeepsNothingOfAFailure) {
  ChoiceCache cache(file_);
  EXPECT_THROW(cache.choose("a", any, []() -> std::string { throw std::runtime_error("no memory"); }),
               std::runtime_error);
  EXPECT_EQ(choose(cache, "a", "fast"), "fast");
}

TEST_F(ChoiceCacheTest, ReplacesABrokenFileWithAWarning) {
  for (const std::string text : {"", "{\"a\": \"half", "[\"a\"]", "7", "{\"a\": 3}"}) {
    file_ = folder_ / "card.json";
    write(text);
    ChoiceCache cache(file_), later(file_);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(choose(cache, "a", "fast") + choose(cache, "b", "slow"), "fastslow") << text;
    const auto warning = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(warning.find(file_.string() + " is not a file of choices"), std::string::npos) << text << warning;
    EXPECT_EQ(warning.find("warning", warning.find("warning") + 1), std::string::npos) << "once: " << warning;
    EXPECT_EQ(choose(later, "a", "other"), "fast") << text;
  }
}

TEST_F(ChoiceCacheTest, KeepsChoicesInMemoryWhereItCannotWrite) {
  write("");
  fs::remove(folder_ / "card.json");
  std::ofstream(folder_ / "below") << "a file, no folder";
  ChoiceCache cache(file_), none;
  for (ChoiceCache* c : {&cache, &none}) {
    EXPECT_EQ(choose(*c, "a", "fast"), "fast");
    EXPECT_EQ(choose(*c, "a", "slow"), "fast");
  }
  EXPECT_EQ(measured_, 2);
}

TEST_F(ChoiceCacheTest, ProcessesAgree) {
  constexpr int processes = 4;
  for (int p = 0; p < processes; ++p) {
    if (::fork() != 0) continue;
    ChoiceCache cache(file_);
    auto own = "process " + std::to_string(p);
    const auto chosen = cache.choose("a", any, [&] {
      ::usleep(50'000);
      return own;
    });
    std::ofstream(folder_ / std::to_string(p)) << chosen;
    ::_exit(0);
  }
  for (int p = 0; p < processes; ++p) ::wait(nullptr);
  std::string first;
  for (int p = 0; p < processes; ++p) {
    std::string chosen;
    std::getline(std::ifstream(folder_ / std::to_string(p)), chosen);
    if (p == 0) first = chosen;
    EXPECT_TRUE(chosen.starts_with("process ")) << chosen;
    EXPECT_EQ(chosen, first);
  }
}

TEST_F(ChoiceCacheTest, ANameThatIsNoRegularFileIsSaidOnce) {
  const auto warned = [&] {
    ChoiceCache cache(file_);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(choose(cache, "a", "fast"), "fast");
    EXPECT_EQ(choose(cache, "b", "slow"), "slow");
    return ::testing::internal::GetCapturedStderr();
  };
  const auto line = "keelson: warning: " + file_.string() + " is not a file of choices and is ignored; it ";
  fs::create_directories(file_);
  EXPECT_EQ(warned(), line + "is no regular file, so choices are not kept: remove it\n");
  fs::remove(file_);
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_EQ(warned(), line + "is no regular file, so choices are not kept: remove it\n");
  EXPECT_TRUE(fs::is_fifo(file_));
  fs::remove(file_);
  write("");
  fs::resize_file(file_, std::uintmax_t{8} << 30);  // sparse
  EXPECT_EQ(warned(), line + "will be replaced\n");
}

}  // namespace
}  // namespace keelson
