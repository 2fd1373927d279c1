#include "apps/lm/model.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace keelson::lm {
namespace {

namespace fs = std::filesystem;

std::string source_of(const std::string& file) {
  return R"({"entropy_rate_nats": 1.5, "perplexity": {"best": 4.4817, "unigram": 20, "bigram": 5}, "tokens": {")" +
         file + R"(": 7}})";
}

class KnownSourceTest : public ::testing::Test {
 protected:
  KnownSourceTest() {
    std::string path = ::testing::TempDir() + "keelson-lm-XXXXXX";
    folder_ = mkdtemp(path.data());
  }
  ~KnownSourceTest() override { fs::remove_all(folder_); }
  KnownSource with(const std::string& source) {
    std::ofstream(folder_ / "source.json") << source;
    return known_source((folder_ / "ptb.test.txt").string());
  }
  fs::path folder_;
};

TEST_F(KnownSourceTest, IsThatBesideTheText) {
  const auto s = with(source_of("ptb.test.txt"));
  EXPECT_EQ(s.perplexity, 4.4817);
  EXPECT_EQ(s.unigram, 20);
  EXPECT_EQ(s.bigram, 5);
}

/// Any file may have that name; then nothing is known, which is no error.
TEST_F(KnownSourceTest, IsUnknownOtherwise) {
  EXPECT_EQ(known_source((folder_ / "ptb.test.txt").string()).perplexity, 0);
  for (const std::string other :
       {"", "{", "[1, 2]", "7", "{}", R"({"entropy_rate_nats": 1.5})", R"({"perplexity": 4, "tokens": 3})",
        R"({"entropy_rate_nats": 1.5, "perplexity": {"best": "4"}, "tokens": {"ptb.test.txt": 7}})"}) {
    KnownSource s;
    EXPECT_NO_THROW(s = with(other)) << other;
    EXPECT_EQ(s.perplexity, 0) << other;
  }
  EXPECT_EQ(with(source_of("ptb.train.txt")).perplexity, 0);
}

}  // namespace
}  // namespace keelson::lm
