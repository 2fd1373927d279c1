#include "apps/lm/text/vocabulary.hpp"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

#include "engine/base/error.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::lm {
namespace {

using namespace testing;

Vocabulary of_text(const std::string& text, TokenLevel level = TokenLevel::word,
                   const VocabularyOptions& options = {}) {
  const TemporaryFolder folder;
  return Vocabulary(scan_text({write_file(folder / "text.txt", text)}, level), options);
}

std::vector<TokenCount> tokens_of(const Vocabulary& v) {
  std::vector<TokenCount> all;
  for (std::int32_t i = 0; i < v.size(); ++i) all.push_back({std::string(v.token(i)), v.count(i)});
  return all;
}

using Counts = std::vector<TokenCount>;

TEST(TokenTable, NumbersTokensLikeAMap) {
  TokenTable table;
  std::unordered_map<std::string, std::int32_t> map;
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) {
    auto token = std::to_string(random() % 30000);
    if (i % 3 == 0) token = std::string(1, static_cast<char>(random() % 256));
    const auto number = map.emplace(token, static_cast<std::int32_t>(map.size())).first->second;
    ASSERT_EQ(table.add(token), number);
  }
  ASSERT_EQ(table.size(), static_cast<std::int32_t>(map.size()));
  for (const auto& [token, number] : map) {
    ASSERT_EQ(table.find(token), number);
    ASSERT_EQ(table.token(number), token);
  }
  EXPECT_EQ(table.find("not there"), -1);
  EXPECT_EQ(TokenTable().find("a"), -1);
}

TEST(Vocabulary, OrdersByCountThenToken) {
  const auto v = of_text("b a c b\na <unk> Z é\n");
  EXPECT_EQ(tokens_of(v), (Counts{{"<eos>", 2}, {"a", 2}, {"b", 2}, {"<unk>", 1}, {"Z", 1}, {"c", 1}, {"é", 1}}));
  EXPECT_EQ(v.id("b"), 2);
  EXPECT_EQ(v.id("é"), 6);
  EXPECT_EQ(v.id("never"), 3);
  EXPECT_EQ(v.unknown(), 3);
  EXPECT_EQ(v.level(), TokenLevel::word);
  EXPECT_THROW(v.token(7), Error);
  EXPECT_THROW(v.token(-1), Error);
}

TEST(Vocabulary, AlwaysHoldsTheSpecialTokens) {
  EXPECT_EQ(tokens_of(of_text("a\n")), (Counts{{"<eos>", 1}, {"a", 1}, {"<unk>", 0}}));
  EXPECT_EQ(tokens_of(of_text("aab\n", TokenLevel::character)), (Counts{{"a", 2}, {"\n", 1}, {"b", 1}, {"<unk>", 0}}));
}

TEST(Vocabulary, CountsWhatItLeavesOutForUnk) {
  const std::string text = "a a a a b b b c c d <unk>\n";
  EXPECT_EQ(tokens_of(of_text(text, TokenLevel::word, {.min_count = 2})),
            (Counts{{"a", 4}, {"b", 3}, {"<unk>", 2}, {"c", 2}, {"<eos>", 1}}));
  EXPECT_EQ(tokens_of(of_text(text, TokenLevel::word, {.max_size = 4})),
            (Counts{{"<unk>", 4}, {"a", 4}, {"b", 3}, {"<eos>", 1}}));
  EXPECT_EQ(tokens_of(of_text(text, TokenLevel::word, {.max_size = 3, .min_count = 4})),
            (Counts{{"<unk>", 7}, {"a", 4}, {"<eos>", 1}}));
  EXPECT_EQ(tokens_of(of_text(text, TokenLevel::word, {.max_size = 100})), tokens_of(of_text(text)));
  // Of equals, the first in order stay.
  EXPECT_EQ(tokens_of(of_text("q p r\n", TokenLevel::word, {.max_size = 4})),
            (Counts{{"<eos>", 1}, {"<unk>", 1}, {"p", 1}, {"q", 1}}));

  const TemporaryFolder folder;
  const auto other = scan_text({write_file(folder / "other.txt", "a x y <unk> b\n")}, TokenLevel::word);
  EXPECT_EQ(of_text(text).left_out(other), 2);
}

TEST(Vocabulary, RefusesWhatLeavesNothing) {
  const auto refusal = [](const VocabularyOptions& o) {
    return message_of<InputError>([&] { of_text("a b\n", TokenLevel::word, o); });
  };
  EXPECT_NE(refusal({.max_size = 2}).find("Expected 3 to"), std::string::npos);
  EXPECT_NE(refusal({.max_size = -1}).find("-1 tokens"), std::string::npos);
  EXPECT_NE(refusal({.min_count = 2}).find("--min-count"), std::string::npos);
}

TEST(Vocabulary, ReadsBackItsTextForm) {
  const TemporaryFolder folder;
  for (const auto level : {TokenLevel::word, TokenLevel::character}) {
    const auto v = of_text("a\\n b\\ <unk> \t 水 \r𝄞 a\n\n", level);
    const auto path = folder / "vocabulary.txt";
    v.save(path);
    const auto back = Vocabulary::load(path);
    EXPECT_EQ(tokens_of(back), tokens_of(v));
    EXPECT_EQ(back.level(), level);
    EXPECT_EQ(back.hash(), v.hash());
    EXPECT_EQ(back.unknown(), v.unknown());
    std::string with_crlf;
    for (const char c : v.to_text()) {
      if (c == '\n') with_crlf += '\r';
      with_crlf += c;
    }
    EXPECT_EQ(tokens_of(Vocabulary::from_text(with_crlf, "v")), tokens_of(v));
  }
  EXPECT_EQ(of_text("a\n").to_text(), "keelson-vocabulary 1 word 3\n<eos>\t1\na\t1\n<unk>\t0\n");
  EXPECT_NE(of_text("a\n\n", TokenLevel::character).to_text().find("\n\\n\t2\n"), std::string::npos);
}

TEST(Vocabulary, HashTellsTokensAndOrder) {
  const auto hash = of_text("a a b\n").hash();
  EXPECT_EQ(of_text("a a a b b\n\n").hash(), hash);  // other counts, same ids
  EXPECT_NE(of_text("b b a\n").hash(), hash);
  EXPECT_NE(of_text("a a c\n").hash(), hash);
  EXPECT_NE(of_text("a a b\n", TokenLevel::character).hash(), hash);
}

TEST(Vocabulary, RefusesBadFiles) {
  const auto refused = [](const std::string& text, const std::string& says) {
    const auto message = message_of<InputError>([&] { Vocabulary::from_text(text, "v.txt"); });
    EXPECT_NE(message.find("v.txt: "), std::string::npos) << message;
    EXPECT_NE(message.find(says), std::string::npos) << message;
  };
  const std::string head = "keelson-vocabulary 1 word 3\n";
  refused("", "begins with ''");
  refused("the\nof\n", "begins with 'the'. Expected 'keelson-vocabulary 1 word SIZE'");
  refused("keelson-vocabulary 2 word 3\n", "Expected 'keelson-vocabulary 1");
  refused("keelson-vocabulary 1 syllable 3\n", "Expected");
  refused("keelson-vocabulary 1 word -3\n", "Expected");
  refused(head + "<eos>\t1\na\t1\n", "has 2 tokens, but its first line says 3");
  refused(head + "<eos>\t1\na\t1\nb\t0\n", "has no <unk>");
  refused(head + "<unk>\t1\na\t1\nb\t0\n", "has no <eos>");
  refused(head + "<eos>\t1\na\t1\na\t0\n", "line 4 repeats 'a'");
  refused(head + "<eos>\t1\na 1\n<unk>\t0\n", "line 3 is 'a 1'");
  refused(head + "<eos>\t1\na b\t1\n<unk>\t0\n", "line 3 is 'a b\t1'");
  refused(head + "<eos>\t1\na\t-1\n<unk>\t0\n", "line 3");
  refused(head + "<eos>\t1\na\\x\t1\n<unk>\t0\n", "line 3");
  refused(head + "<eos>\t1\n\t1\n<unk>\t0\n", "line 3");
  refused(head + "<eos>\t1\n\xFF\t1\n<unk>\t0\n", "not UTF-8");
  refused("keelson-vocabulary 1 character 2\nab\t1\n<unk>\t0\n", "Expected a character");
  EXPECT_NE(message_of<InputError>([] { Vocabulary::load("/nowhere/v.txt"); }).find("/nowhere/v.txt"),
            std::string::npos);
}

}  // namespace
}  // namespace keelson::lm
