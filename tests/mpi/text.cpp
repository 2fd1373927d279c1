#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "apps/lm/text/text_corpus.hpp"
#include "apps/lm/text/text_scan.hpp"
#include "apps/lm/text/vocabulary.hpp"
#include "engine/base/error.hpp"
#include "tests/mpi/world.hpp"

namespace keelson::testing {
namespace {

namespace fs = std::filesystem;
using lm::TextCorpus, lm::TextScan, lm::TokenCount, lm::TokenLevel, lm::scan_text;

/// A folder of rank 0's that goes with its content; nobody else knows where it is.
class TextScanTest : public MpiTest {
 protected:
  TextScanTest() {
    if (rank() != 0) return;
    std::string path = ::testing::TempDir() + "keelson-mpi-XXXXXX";
    folder_ = mkdtemp(path.data());
  }
  ~TextScanTest() override {
    if (rank() == 0) fs::remove_all(folder_);
  }
  std::string write(const std::string& bytes) const {
    const auto path = (folder_ / "text.txt").string();
    if (rank() == 0) std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  fs::path folder_;
};

TEST_F(TextScanTest, RankZeroReadsForAll) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += fmt::format("word{}{}", i % 100, i % 10 == 9 ? "\n" : " ");
  const auto scan = scan_text({write(text)}, TokenLevel::word, world());
  EXPECT_EQ(scan.tokens, 22000);
  EXPECT_EQ(scan.types.size(), 101u);
  EXPECT_EQ(scan.types[0], (TokenCount{"<eos>", 2000}));
  EXPECT_EQ(scan.blocks.size(), 3u);
  for (const auto& other : world().allgather(scan.to_bytes())) EXPECT_EQ(TextScan::from_bytes(other), scan);
}

/// Afterwards nobody needs the file: it is in memory, unless it is too large, or there is one rank alone.
TEST_F(TextScanTest, TheRanksOfANodeShareACopy) {
  std::string text;
  for (int i = 0; i < 60000; ++i) text += fmt::format("word{}{}", i * i % 1000, i % 10 == 9 ? "\n" : " ");
  const auto scan = scan_text({write(text)}, TokenLevel::word, world());
  const lm::Vocabulary vocabulary(scan, {0, 0});
  const auto blocks = [&](const TextCorpus& corpus) {
    std::vector<std::vector<std::int32_t>> all;
    for (std::size_t b = 0; b < scan.blocks.size(); ++b)
      all.push_back(corpus.read_block(static_cast<std::int64_t>(b), vocabulary));
    return all;
  };
  const auto expected = blocks(TextCorpus(scan));
  const TextCorpus shared(scan, &world()), own(scan, &world(), scan.bytes() - 1);
  world().barrier();
  write("x");
  world().barrier();
  if (size() > 1) {
    EXPECT_EQ(blocks(shared), expected);
  }
  EXPECT_THROW(blocks(own), InputError);
  std::string message = "was not refused";
  try {
    const TextCorpus changed(scan, &world());
  } catch (const InputError& error) {
    message = error.what();
  }
  EXPECT_NE(message.find("has 1 bytes here, but had"), std::string::npos) << message;
}

TEST_F(TextScanTest, AllRanksRefuseAlike) {
  for (const char* bytes : {"", "good\xFF"}) {
    std::string message = "was not refused";
    try {
      scan_text({write(bytes)}, TokenLevel::character, world());
    } catch (const InputError& error) {
      message = error.what();
    }
    EXPECT_NE(message.find(*bytes == 0 ? "is empty" : "byte 4 is 0xff"), std::string::npos) << message;
    for (const auto& other : world().allgather(message)) EXPECT_EQ(other, message);
  }
}

}  // namespace
}  // namespace keelson::testing
