#include "apps/lm/text/token_reader.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::lm {
namespace {

using namespace testing;

using Tokens = std::vector<std::string>;

struct Read {
  Tokens tokens;
  std::vector<std::int64_t> offsets;
};

Read read_all(const std::string& path, TokenLevel level, std::size_t buffer, std::int64_t offset = 0) {
  const TextBytes file(path);
  TokenReader reader(file, level, offset, buffer);
  Read r;
  for (std::string_view token; reader.next(token);) {
    r.tokens.emplace_back(token);
    r.offsets.push_back(reader.offset());
  }
  return r;
}

/// The same tokens with every size of buffer, and from the middle of the file on.
void expect_tokens(const std::string& text, TokenLevel level, const Tokens& expected) {
  const TemporaryFolder folder;
  const auto path = write_file(folder / "text", text);
  for (const std::size_t buffer : {8, 9, 10, 11, 12, 13, 16, 31, 1 << 16}) {
    const auto whole = read_all(path, level, buffer);
    ASSERT_EQ(whole.tokens, expected) << "buffer of " << buffer;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto rest = read_all(path, level, buffer, whole.offsets[i]);
      ASSERT_EQ(rest.tokens, Tokens(expected.begin() + static_cast<std::ptrdiff_t>(i), expected.end()))
          << "from token " << i << " at byte " << whole.offsets[i] << ", buffer of " << buffer;
    }
  }
}

TEST(TokenReader, ReadsWordsAsThePtbReaderDoes) {
  expect_tokens(" aer banknote <unk> \n a <eos>b \n", TokenLevel::word,
                {"aer", "banknote", "<unk>", "<eos>", "a", "<eos>b", "<eos>"});
  expect_tokens("a\n\n \nb\n", TokenLevel::word, {"a", "<eos>", "<eos>", "<eos>", "b", "<eos>"});
  expect_tokens("a\tb\v\fc\r\nd\re", TokenLevel::word, {"a", "b", "c", "<eos>", "d", "e", "<eos>"});
}

TEST(TokenReader, EndsALastLineWithoutNewline) {
  expect_tokens("one two", TokenLevel::word, {"one", "two", "<eos>"});
  expect_tokens("one\ntwo \t", TokenLevel::word, {"one", "<eos>", "two", "<eos>"});
  expect_tokens("one\n  ", TokenLevel::word, {"one", "<eos>"});
  expect_tokens("\n", TokenLevel::word, {"<eos>"});
  expect_tokens(" \t ", TokenLevel::word, {});
  expect_tokens("", TokenLevel::word, {});
  expect_tokens("", TokenLevel::character, {});
}

TEST(TokenReader, KeepsCodePointsAndWordsWholeAcrossReads) {
  expect_tokens("größer Ärger 水木金 𝄞x an-extraordinarily-long-word-for-a-small-buffer\n", TokenLevel::word,
                {"größer", "Ärger", "水木金", "𝄞x", "an-extraordinarily-long-word-for-a-small-buffer", "<eos>"});
  expect_tokens("aé水𝄞\n ñ", TokenLevel::character, {"a", "é", "水", "𝄞", "\n", " ", "ñ"});
}

TEST(TokenReader, TakesCrLfForOneNewline) {
  expect_tokens("a\r\n\r\nb\r\r\nc\r", TokenLevel::character, {"a", "\n", "\n", "b", "\r", "\n", "c", "\r"});
  expect_tokens("1234567\r\nabc\r\n", TokenLevel::word, {"1234567", "<eos>", "abc", "<eos>"});
}

TEST(TokenReader, SkipsAByteOrderMarkAtTheStartOnly) {
  expect_tokens("\xEF\xBB\xBFhi\n", TokenLevel::word, {"hi", "<eos>"});
  expect_tokens("\xEF\xBB\xBF", TokenLevel::character, {});
  expect_tokens("\xEF\xBB\xBFi\xEF\xBB\xBF", TokenLevel::character, {"i", "\xEF\xBB\xBF"});
}

std::string refusal(const std::string& bytes, TokenLevel level = TokenLevel::word, std::size_t buffer = 8) {
  const TemporaryFolder folder;
  const auto path = write_file(folder / "odd.txt", bytes);
  const auto message = message_of<InputError>([&] { read_all(path, level, buffer); });
  EXPECT_NE(message.find("odd.txt: "), std::string::npos) << message;
  return message;
}

TEST(TokenReader, RefusesWhatIsNotUtf8NamingTheByte) {
  const std::string good = "good words\nand more ";  // 20 bytes
  for (const std::string& bad :
       {std::string("\0", 1), std::string("\x80"), std::string("\xC0\x80"), std::string("\xE0\x80\x80"),
        std::string("\xED\xA0\x80"), std::string("\xF4\x90\x80\x80"), std::string("\xF8"), std::string("\xFF"),
        std::string("\xC3(")}) {
    for (const std::size_t buffer : {8, 13, 1 << 16})
      EXPECT_NE(refusal(good + bad + " rest of the text", TokenLevel::word, buffer).find("byte 20 is 0x"),
                std::string::npos)
          << refusal(good + bad);
    EXPECT_NE(refusal(good + bad, TokenLevel::character).find("byte 20 is 0x"), std::string::npos);
  }
  EXPECT_NE(refusal("\x1F\x8B\x08").find("byte 1 is 0x8b"), std::string::npos);  // gzip
  EXPECT_NE(refusal(good + "\xE6\xB0").find("ends at byte 22 within"), std::string::npos);
}

TEST(TokenReader, RefusesAWordWithoutEnd) {
  const auto message = refusal("short " + std::string(3 << 20, 'x') + " short", TokenLevel::word, 1 << 16);
  EXPECT_NE(message.find("without white space from byte 6 on"), std::string::npos) << message;
  const std::string longest(1000000, 'x');
  expect_tokens("a " + longest + " b", TokenLevel::word, {"a", longest, "b", "<eos>"});
}

}  // namespace
}  // namespace keelson::lm
