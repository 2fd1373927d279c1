#pragma once

#include <cstdint>
#include <vector>

/// A source of made-up text whose entropy rate is known exactly.
///
/// Each sentence has a topic, which its first word tells: openers belong to one topic each. From then on a word is
/// drawn by the topic and the word before it; most words lead on alike in all topics, but some, the pivots, have
/// successors of their own in each. <eos> is a word like the others, whose successors are openers, those of the same
/// topic with half of the probability. So
///
///  - (topic, last token) is a Markov chain, and a function of the tokens so far, which makes the chain's entropy rate
///    that of the text, <eos> included;
///  - a model must carry the topic from the first word of a sentence to its last: what an n-gram cannot, and an LSTM
///  can.
///
/// Probabilities are multiples of 2^-32, made and drawn from with integers: the same on every machine.
namespace keelson::lm {

struct Successor {
  std::int32_t token = 0;
  std::uint64_t weight = 0;  ///< probability * 2^32
};
using Row = std::vector<Successor>;

inline constexpr std::uint64_t certain = std::uint64_t{1} << 32;  ///< weights of a row sum up to this

struct TopicChain {
  std::int32_t words = 0;  ///< tokens 0 ... words - 1; then comes <eos>
  std::int32_t topics = 1;
  std::vector<Row> rows;
  std::vector<std::int32_t> row_of;    ///< (states) states may share rows
  std::vector<std::int32_t> topic_of;  ///< (words) the topic of a sentence that begins with it

  std::int32_t tokens() const { return words + 1; }
  std::int32_t eos() const { return words; }
  /// States are numbered topic * tokens() + last token.
  std::int32_t states() const { return topics * tokens(); }
  std::int32_t token_of(std::int32_t state) const { return state % tokens(); }
  std::int32_t start() const { return eos(); }  ///< after a sentence of topic 0
  const Row& row(std::int32_t state) const {
    return rows[static_cast<std::size_t>(row_of[static_cast<std::size_t>(state)])];
  }
  std::int32_t next(std::int32_t state, std::int32_t token) const {
    if (token_of(state) == eos()) return topic_of[static_cast<std::size_t>(token)] * tokens() + token;
    return state - token_of(state) + token;
  }
};

struct ChainOptions {
  std::int64_t words = 1000;   ///< different ones, besides <eos>
  std::int64_t branching = 8;  ///< successors of a word, besides <eos>; openers of a topic
  std::int64_t topics = 4;
  std::int64_t sentence = 12;  ///< words, on average, about
  std::uint64_t seed = 0;
};

/// Every word occurs. Throws InputError for options out of range.
TopicChain make_chain(const ChainOptions& options);

/// Draws a token from a row, by 32 random bits.
std::int32_t draw(const Row& row, std::uint32_t bits);

}  // namespace keelson::lm
