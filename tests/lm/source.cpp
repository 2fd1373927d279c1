#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "apps/lm/source/corpus.hpp"
#include "apps/lm/source/entropy.hpp"
#include "apps/lm/text/vocabulary.hpp"
#include "engine/base/error.hpp"
#include "engine/base/philox.hpp"

namespace keelson::lm {
namespace {

namespace fs = std::filesystem;

/// Entropy of a choice between two.
double binary(double p) { return -p * std::log(p) - (1 - p) * std::log(1 - p); }

double sum(const std::vector<double>& v) {
  double s = 0;
  for (const double x : v) s += x;
  return s;
}

TEST(Entropy, OfOneWordByHand) {
  // Sentences of "a", which end with probability 1/2: pi = (2/3, 1/3), one bit at every other token.
  TopicChain c;
  c.words = 1;
  c.rows = {{{0, certain / 2}, {1, certain / 2}}, {{0, certain}}};
  c.row_of = {0, 1};
  c.topic_of = {0};
  const auto pi = stationary(c);
  EXPECT_NEAR(pi[0], 2.0 / 3, 1e-12);
  EXPECT_NEAR(pi[1], 1.0 / 3, 1e-12);
  EXPECT_NEAR(entropy_rate(c, pi), 2.0 / 3 * std::log(2.0), 1e-12);
  EXPECT_NEAR(ngram_entropy(c, pi, 1), binary(1.0 / 3), 1e-12);
  EXPECT_NEAR(ngram_entropy(c, pi, 2), entropy_rate(c, pi), 1e-12);
  EXPECT_NEAR(ngram_entropy(c, pi, 3), entropy_rate(c, pi), 1e-12);
}

/// x or y, then m until the sentence ends: after each with probability 3/4 if it began with x, 1/4 if with y.
TopicChain two_topics() {
  enum : std::int32_t { x, y, m, eos };
  TopicChain c;
  c.words = 3;
  c.topics = 2;
  c.rows = {{{m, certain}},
            {{x, certain / 2}, {y, certain / 2}},
            {{m, certain / 4}, {eos, certain / 4 * 3}},
            {{m, certain / 4 * 3}, {eos, certain / 4}}};
  c.row_of = {0, 0, 2, 1, 0, 0, 3, 1};
  c.topic_of = {0, 1, 0};
  return c;
}

TEST(Entropy, OfTwoTopicsByHand) {
  // Per sentence there are 4/3 or 4 m: in two sentences 2 openers, 16/3 m, 2 <eos>.
  const auto c = two_topics();
  const auto pi = stationary(c);
  const double all = 28.0 / 3, openers = 2 * std::log(2.0);
  EXPECT_NEAR(sum(pi), 1, 1e-12);
  EXPECT_NEAR(pi[2], 4.0 / 3 / all, 1e-12);
  EXPECT_NEAR(pi[4 + 2], 4 / all, 1e-12);
  EXPECT_NEAR(entropy_rate(c, pi), (openers + 16.0 / 3 * binary(0.25)) / all, 1e-12);
  // Seeing an m alone, 1/4 of them are of x: it ends with (1/4 3/4 + 3/4 1/4).
  EXPECT_NEAR(ngram_entropy(c, pi, 2), (openers + 16.0 / 3 * binary(0.375)) / all, 1e-12);
  // After "x m" and "y m" the topic is known, after "m m" the odds are 1/3 to 3.
  EXPECT_NEAR(ngram_entropy(c, pi, 3), (openers + 2 * binary(0.25) + 10.0 / 3 * binary(0.3)) / all, 1e-12);
  const double m = 16.0 / 3 / all, x = 1 / all, eos = 2 / all;
  EXPECT_NEAR(ngram_entropy(c, pi, 1), -m * std::log(m) - 2 * x * std::log(x) - eos * std::log(eos), 1e-12);
}

TEST(TopicChain, IsMadeToMeasure) {
  const ChainOptions o{.words = 200, .branching = 6, .topics = 3, .sentence = 10, .seed = 4};
  const auto c = make_chain(o);
  ASSERT_EQ(c.states(), 3 * 201);
  std::int32_t pivots = 0;
  for (std::int32_t state = 0; state < c.states(); ++state) {
    const auto& row = c.row(state);
    const bool after_end = c.token_of(state) == c.eos();
    std::uint64_t weights = 0;
    std::set<std::int32_t> different;
    for (const auto& s : row) {
      EXPECT_GT(s.weight, 0u);
      weights += s.weight;
      different.insert(s.token);
    }
    EXPECT_EQ(weights, certain);
    EXPECT_EQ(different.size(), row.size());
    EXPECT_EQ(row.size(), after_end ? 18u : 7u);
    EXPECT_EQ(different.contains(c.eos()), !after_end);  // no empty lines
    pivots += state < c.eos() && &row != &c.row(state + c.tokens());
  }
  EXPECT_NEAR(pivots, 50, 25);
  // Half of the sentences keep their topic, about.
  std::uint64_t stays = 0;
  for (const auto& s : c.row(c.eos())) stays += c.topic_of[static_cast<std::size_t>(s.token)] == 0 ? s.weight : 0;
  EXPECT_NEAR(static_cast<double>(stays) / static_cast<double>(certain), 0.5, 0.2);

  const auto pi = stationary(c);
  EXPECT_NEAR(sum(pi), 1, 1e-12);
  for (const double p : pi) EXPECT_GT(p, 0);
  const double ends = pi[200] + pi[401] + pi[602];
  EXPECT_NEAR(1 / ends, 11, 3);
  const double h[] = {entropy_rate(c, pi), ngram_entropy(c, pi, 3), ngram_entropy(c, pi, 2), ngram_entropy(c, pi, 1)};
  EXPECT_LT(h[0] + 0.05, h[1]) << "three tokens tell as much as a whole sentence";
  EXPECT_LT(h[1], h[2]);
  EXPECT_LT(h[2] + 0.5, h[3]);
}

TEST(TopicChain, WithoutTopicsABigramSeesAll) {
  const auto c = make_chain({.words = 100, .branching = 4, .topics = 1});
  const auto pi = stationary(c);
  EXPECT_NEAR(ngram_entropy(c, pi, 2), entropy_rate(c, pi), 1e-12);
  EXPECT_NEAR(ngram_entropy(c, pi, 3), entropy_rate(c, pi), 1e-12);
}

TEST(TopicChain, RefusesOptionsOutOfRange) {
  for (const ChainOptions& o :
       {ChainOptions{.words = 3}, ChainOptions{.words = 2'000'000}, ChainOptions{.branching = 1},
        ChainOptions{.words = 20, .branching = 11}, ChainOptions{.topics = 0},
        ChainOptions{.words = 20, .branching = 8, .topics = 3}, ChainOptions{.sentence = 2},
        ChainOptions{.words = 1'000'000, .branching = 64, .topics = 8}})
    EXPECT_THROW(make_chain(o), InputError);
}

TEST(TopicChain, DrawsByWeight) {
  const Row row{{5, certain / 2}, {6, 1}, {7, certain / 2 - 1}};
  EXPECT_EQ(draw(row, 0), 5);
  EXPECT_EQ(draw(row, 0x7FFFFFFF), 5);
  EXPECT_EQ(draw(row, 0x80000000), 6);
  EXPECT_EQ(draw(row, 0x80000001), 7);
  EXPECT_EQ(draw(row, 0xFFFFFFFF), 7);
}

TEST(Corpus, WordsAreDifferentAndPronounceable) {
  const auto words = made_up_words(20000, 3);
  EXPECT_EQ(std::set(words.begin(), words.end()).size(), words.size());
  for (const auto& word : words) {
    EXPECT_EQ(word.size() % 2, 0u);
    EXPECT_TRUE(std::string("aeiou").find(word.back()) != std::string::npos) << word;
  }
  EXPECT_EQ(words[79].size(), 2u);
  EXPECT_EQ(words[80].size(), 4u);
  EXPECT_EQ(words[6479].size(), 4u);
  EXPECT_EQ(words[6480].size(), 6u);
}

class CorpusFile : public ::testing::Test {
 protected:
  CorpusFile() {
    std::string path = ::testing::TempDir() + "keelson-lm-XXXXXX";
    folder_ = mkdtemp(path.data());
  }
  ~CorpusFile() override { fs::remove_all(folder_); }
  std::string bytes(const std::string& name) const {
    std::ifstream in(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  fs::path folder_;
};

TEST_F(CorpusFile, IsAFunctionOfSeedAndSplit) {
  const ChainOptions o{.words = 50, .branching = 4, .topics = 2, .seed = 9};
  const auto words = made_up_words(o.words, o.seed);
  const auto write = [&](const char* name, std::uint64_t seed, std::uint64_t split) {
    return write_corpus(make_chain(o), words, seed, split, 5000, folder_ / name);
  };
  const auto tokens = write("a", 9, 0);
  EXPECT_GE(tokens, 5000);
  EXPECT_LT(tokens, 5200);
  EXPECT_EQ(scan_text({folder_ / "a"}, TokenLevel::word).tokens, tokens);
  write("b", 9, 0);
  write("c", 9, 1);
  write("d", 8, 0);
  EXPECT_EQ(bytes("a"), bytes("b"));
  EXPECT_NE(bytes("a"), bytes("c"));
  EXPECT_NE(bytes("a"), bytes("d"));
  EXPECT_TRUE(bytes("a").ends_with("\n"));
  EXPECT_EQ(bytes("a").find("\n\n"), std::string::npos);
  EXPECT_THROW(write("no/such/folder", 9, 0), Error);
}

TEST_F(CorpusFile, HasTheEntropyThatIsPromised) {
  // Everything is estimated from the file as keelson-lm reads it: counts of what follows what, given the sentence's
  // first word or not. Such estimates are low by about (number of probabilities) / (2 tokens), here below 0.002.
  const ChainOptions o{.words = 24, .branching = 4, .topics = 2, .seed = 2};
  const auto chain = make_chain(o);
  const auto pi = stationary(chain);
  const std::int64_t tokens = 600000;
  const auto path = (folder_ / "text").string();
  write_corpus(chain, made_up_words(o.words, o.seed), 1, 0, tokens, path);

  std::map<std::string, std::int32_t> topic_of_opener;
  const auto words = made_up_words(o.words, o.seed);
  for (std::size_t i = 0; i < words.size(); ++i) topic_of_opener[words[i]] = chain.topic_of[i];
  std::map<std::string, std::map<std::string, double>> after[4];  // nothing, a token, two, a token and the topic
  const TextBytes file(path);
  TokenReader reader(file, TokenLevel::word);
  std::string last = "<eos>", before_last;
  std::int32_t topic = 0;
  double n = 0;
  for (std::string_view view; reader.next(view); ++n) {
    const std::string token(view);
    ++after[0][""][token];
    ++after[1][last][token];
    ++after[2][before_last + " " + last][token];
    ++after[3][last + std::to_string(topic)][token];
    if (last == "<eos>") topic = topic_of_opener.at(token);
    before_last = last;
    last = token;
  }
  double measured[4] = {};
  for (int i = 0; i < 4; ++i)
    for (const auto& [context, counts] : after[i]) {
      double all = 0;
      for (const auto& [token, count] : counts) all += count;
      for (const auto& [token, count] : counts) measured[i] -= count * std::log(count / all) / n;
    }
  const double noise = 0.004;  // of the mean of 600,000 surprises, whose standard deviation is about 1: three times
  EXPECT_NEAR(measured[0], ngram_entropy(chain, pi, 1), noise + 0.001);
  EXPECT_NEAR(measured[1], ngram_entropy(chain, pi, 2), noise + 0.001);
  EXPECT_NEAR(measured[2], ngram_entropy(chain, pi, 3), noise + 0.002);
  EXPECT_NEAR(measured[3], entropy_rate(chain, pi), noise + 0.001);
  EXPECT_LT(measured[3] + 0.05, measured[2]);
}

}  // namespace
}  // namespace keelson::lm
