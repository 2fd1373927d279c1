#pragma once

#include <cstdint>
#include <vector>

/// A source of made-up text whose entropy rate is known exactly.
///
/// Each sentence has a topic, which its first word (the opener) determines: each opener belongs to one topic. Each
/// further word is drawn depending on the topic and the previous word. Most words have the same successors in all
/// topics; some words, the pivots, have other successors in each topic. <eos> is a word like the others: its successors
/// are openers, and half of the probability belongs to openers of the same topic. So
///
///  - (topic, last token) is a Markov chain and a function of the tokens so far. Therefore the chain's entropy rate is
///    that of the text, <eos> included;
///  - a model must remember the topic from the first word of a sentence to its last. An n-gram cannot do so, an LSTM
///    can.
///
/// Probabilities are multiples of 2^-32, computed and drawn with integers, so they are the same on every machine.
namespace keelson::lm {

struct Successor {
  std::int32_t token = 0;
  std::uint64_t weight = 0;  ///< probability * 2^32
};
using Row = std::vector<Successor>;

inline constexpr std::uint64_t certain = std::uint64_t{1} << 32;  ///< the sum of a row's weights

struct TopicChain {
  std::int32_t words = 0;  ///< tokens 0 ... words - 1; then comes <eos>
  std::int32_t topics = 1;
  std::vector<Row> rows;
  std::vector<std::int32_t> row_of;    ///< (states) the row of each state; states may share rows
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
  std::int64_t words = 1000;   ///< number of different words, without <eos>
  std::int64_t branching = 8;  ///< successors of a word, without <eos>; openers of a topic
  std::int64_t topics = 4;
  std::int64_t sentence = 12;  ///< approximate mean number of words
  std::uint64_t seed = 0;
};

/// Makes a chain in which every word occurs. Throws InputError for options out of range.
TopicChain make_chain(const ChainOptions& options);

/// Draws a token from a row with 32 random bits.
std::int32_t draw(const Row& row, std::uint32_t bits);

}  // namespace keelson::lm
