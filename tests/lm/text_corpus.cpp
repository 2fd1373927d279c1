#include "apps/lm/text/text_corpus.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <thread>

#include "comm/communicators.hpp"
#include "engine/base/error.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::lm {
namespace {

using namespace testing;

/// Sentences of words of all lengths, some of them of many bytes per character.
std::string sentences(std::int64_t words, unsigned seed) {
  static const char* const letters[] = {"a", "b", "é", "水", "𝄞", "z"};
  std::mt19937 random(seed);
  std::string text;
  for (std::int64_t i = 0; i < words; ++i) {
    for (auto n = 1 + random() % 3; n > 0; --n) text += letters[random() % 6];
    text += random() % 12 == 0 ? "\r\n" : random() % 7 == 0 ? " \t" : " ";
  }
  return text;
}

/// What the rule says, in memory and without cleverness.
std::vector<std::string> tokens_of(const std::vector<std::string>& texts, TokenLevel level) {
  std::vector<std::string> tokens;
  for (auto text : texts) {
    for (std::size_t i = 0; (i = text.find("\r\n", i)) != std::string::npos;) text.erase(i, 1);
    std::string word;
    const auto end_word = [&] {
      if (!word.empty()) tokens.push_back(word);
      word.clear();
    };
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto c = static_cast<unsigned char>(text[i]);
      if (level == TokenLevel::character) {
        if ((c & 0xC0) != 0x80) end_word();
        word += text[i];
      } else if (c == ' ' || c == '\t' || c == '\n') {
        end_word();
        if (c == '\n') tokens.emplace_back("<eos>");
      } else {
        word += text[i];
      }
    }
    end_word();
    if (level == TokenLevel::word && tokens.back() != "<eos>") tokens.emplace_back("<eos>");
  }
  return tokens;
}

class TextCorpusTest : public ::testing::TestWithParam<TokenLevel> {
 protected:
  TextCorpusTest() : texts_{sentences(30000, 1), sentences(3, 2), "one\n", sentences(20000, 3) + "unended"} {
    for (std::size_t i = 0; i < texts_.size(); ++i)
      paths_.push_back(write_file(folder_ / (std::to_string(i) + ".txt"), texts_[i]));
  }
  TemporaryFolder folder_;
  std::vector<std::string> texts_, paths_;
};

TEST_P(TextCorpusTest, ScanCountsEveryToken) {
  const auto scan = scan_text(paths_, GetParam());
  const auto expected = tokens_of(texts_, GetParam());
  EXPECT_EQ(scan.tokens, static_cast<std::int64_t>(expected.size()));
  std::map<std::string, std::int64_t> counts;
  for (const auto& t : expected) ++counts[t];
  ASSERT_EQ(scan.types.size(), counts.size());
  EXPECT_TRUE(std::is_sorted(scan.types.begin(), scan.types.end(), comes_before));
  for (const auto& t : scan.types) EXPECT_EQ(t.count, counts[t.token]) << t.token;
  EXPECT_EQ(scan.name(), "0.txt and 3 more files");
  EXPECT_EQ(TextScan::from_bytes(scan.to_bytes()), scan);
  const auto self = comm::make_self();
  EXPECT_EQ(scan_text(paths_, GetParam(), *self), scan);
}

TEST_P(TextCorpusTest, ReadsBlocksInAnyOrderFromSeveralThreads) {
  const TextCorpus corpus(scan_text(paths_, GetParam()));
  const Vocabulary vocabulary(corpus.scan(), {.min_count = 3});
  const auto expected = tokens_of(texts_, GetParam());
  const auto blocks = static_cast<std::int64_t>(corpus.scan().blocks.size());
  ASSERT_GE(blocks, 6);
  const auto read_some = [&](unsigned seed, std::int64_t* wrong) {
    std::mt19937 random(seed);
    for (int i = 0; i < 20; ++i) {
      const auto b = static_cast<std::int64_t>(random() % static_cast<unsigned>(blocks));
      const auto ids = corpus.read_block(b, vocabulary);
      const auto first = static_cast<std::size_t>(b * TextScan::block);
      const auto count = std::min<std::size_t>(TextScan::block, expected.size() - first);
      *wrong += ids.size() != count;
      for (std::size_t k = 0; k < std::min(count, ids.size()); ++k)
        *wrong += ids[k] != vocabulary.id(expected[first + k]);
    }
  };
  std::int64_t wrong[4] = {};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) threads.emplace_back(read_some, t, &wrong[t]);
  for (auto& t : threads) t.join();
  for (const auto w : wrong) EXPECT_EQ(w, 0);
}

INSTANTIATE_TEST_SUITE_P(Levels, TextCorpusTest, ::testing::Values(TokenLevel::word, TokenLevel::character),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(TextScan, BlocksMayBeginWithTheEndOfAFile) {
  // The last token of the block's first file is the <eos> that no byte stands for.
  const TemporaryFolder folder;
  std::string text = "w";
  for (std::int64_t i = 1; i < TextScan::block; ++i) text += " w";
  const TextCorpus corpus(
      scan_text({write_file(folder / "a", text), write_file(folder / "b", "\xEF\xBB\xBFv\n")}, TokenLevel::word));
  EXPECT_EQ(corpus.tokens(), TextScan::block + 3);
  const Vocabulary vocabulary(corpus.scan());
  EXPECT_EQ(corpus.read_block(1, vocabulary),
            (std::vector{vocabulary.id("<eos>"), vocabulary.id("v"), vocabulary.id("<eos>")}));
}

TEST(TextScan, ReportsProgress) {
  const TemporaryFolder folder;
  const auto path = write_file(folder / "a", std::string(1 << 24, 'a'));
  std::vector<std::int64_t> done;
  scan_text({path}, TokenLevel::character, [&](std::int64_t bytes, std::int64_t all) {
    EXPECT_EQ(all, 1 << 24);
    done.push_back(bytes);
  });
  EXPECT_GE(done.size(), 2u);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.back(), 1 << 24);
}

TEST(TextScan, RefusesWhatHasNoText) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& path, const std::string& says) {
    const auto self = comm::make_self();
    const auto message = message_of<InputError>([&] { scan_text({path}, TokenLevel::word, *self); });
    EXPECT_NE(message.find(path), std::string::npos) << message;
    EXPECT_NE(message.find(says), std::string::npos) << message;
  };
  refused(folder / "missing", "cannot be opened");
  refused(folder.path(), "is a folder");
  refused(write_file(folder / "empty", ""), "is empty");
  refused(write_file(folder / "blank", " \t "), "has no words");
  refused(write_file(folder / "binary", std::string("ab\0", 3)), "byte 2 is 0x00");
  EXPECT_THROW(scan_text({}, TokenLevel::word), InputError);
}

TEST(TextCorpus, RefusesAFileThatHasChanged) {
  const TemporaryFolder folder;
  const auto path = write_file(folder / "text.txt", "a b c\n");
  const auto scan = scan_text({path}, TokenLevel::word);
  write_file(path, "a b c d\n");
  EXPECT_NE(message_of<InputError>([&] { TextCorpus{scan}; }).find("has 8 bytes here, but had 6"), std::string::npos);
  write_file(path, "abcde\n");
  EXPECT_NE(message_of<InputError>([&] { TextCorpus{scan}; }).find("has another text here"), std::string::npos);
  write_file(path, "a b c\n");
  const TextCorpus corpus(scan);
  const Vocabulary vocabulary(scan);
  write_file(path, "abcde\n");
  EXPECT_NE(message_of<InputError>([&] { corpus.read_block(0, vocabulary); }).find("fewer tokens"), std::string::npos);
}

}  // namespace
}  // namespace keelson::lm
