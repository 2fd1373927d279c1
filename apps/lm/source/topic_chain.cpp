#include "apps/lm/source/topic_chain.hpp"

#include <algorithm>
#include <numeric>

#include "engine/base/error.hpp"
#include "engine/base/philox.hpp"

namespace keelson::lm {
namespace {

void check(const ChainOptions& o) {
  const auto require = [](std::int64_t found, const char* option, std::int64_t from, std::int64_t to) {
    if (found < from || found > to) refuse("{} is {}. Expected {} to {}", option, found, from, to);
  };
  require(o.words, "--vocab-size", 4, 1'000'000);
  require(o.branching, "--branching", 2, std::min<std::int64_t>(256, o.words / 2));
  require(o.topics, "--topics", 1, std::min<std::int64_t>(64, o.words / o.branching));
  require(o.sentence, "--sentence", 3, 1000);
  constexpr std::int64_t most = 50'000'000;  // the trigrams then need a gigabyte
  if (const auto found = o.words * o.topics * o.branching; found > most)
    refuse("--vocab-size x --topics x --branching is {}. Expected at most {}", found, most);
}

/// A sequence of random numbers.
class Draws {
 public:
  Draws(std::uint64_t seed, std::string_view use) : key_{seed, philox::stream_of(use)} {}
  std::uint64_t bits() { return philox::bits(key_, next_++); }
  std::uint64_t below(std::uint64_t n) { return bits() * n >> 32; }  ///< n <= 2^32

 private:
  philox::Key key_;
  std::uint64_t next_ = 0;
};

std::vector<std::int32_t> shuffled(std::int32_t n, Draws draws) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draws.below(i)]);
  return order;
}

/// Weight of the successor at position `rank` by Zipf's law, times a random factor from 1 to 2.
std::uint64_t zipf(std::size_t rank, Draws& draws) {
  return (std::uint64_t{1 << 16} / (rank + 1)) * (256 + draws.below(256));
}

/// Scales weights of less than 2^31 so that they sum up to `sum`.
void scale(Row& row, std::uint64_t sum) {
  std::uint64_t before = 0, after = 0;
  for (const auto& s : row) before += s.weight;
  for (auto& s : row) {
    s.weight = s.weight * sum / before;
    after += s.weight;
  }
  row.front().weight += sum - after;
}

class Maker {
 public:
  explicit Maker(const ChainOptions& o)
      : o_(o),
        words_(static_cast<std::int32_t>(o.words)),
        topics_(static_cast<std::int32_t>(o.topics)),
        successors_(o.seed, "successors"),
        after_(static_cast<std::size_t>(words_)) {
    const auto ring = shuffled(words_, Draws(o.seed, "ring"));
    for (std::size_t i = 0; i < ring.size(); ++i)
      after_[static_cast<std::size_t>(ring[i])] = ring[(i + 1) % ring.size()];
  }

  TopicChain make() {
    TopicChain c;
    c.words = words_;
    c.topics = topics_;
    c.row_of.resize(static_cast<std::size_t>(c.states()));
    const auto set_row = [&](std::int32_t topic, std::int32_t token) {
      const auto state = topic * c.tokens() + token;
      c.row_of[static_cast<std::size_t>(state)] = static_cast<std::int32_t>(c.rows.size()) - 1;
    };
    for (std::int32_t word = 0; word < words_; ++word) {
      const bool pivot = successors_.below(4) == 0;
      for (std::int32_t topic = 0; topic < topics_; ++topic) {
        if (topic == 0 || pivot) c.rows.push_back(row_of_word(word));
        set_row(topic, word);
      }
    }
    const auto openers = shuffled(words_, Draws(o_.seed, "openers"));
    c.topic_of.resize(openers.size());
    for (std::size_t i = 0; i < openers.size(); ++i)
      c.topic_of[static_cast<std::size_t>(openers[i])] =
          static_cast<std::int32_t>(static_cast<std::int64_t>(i) / o_.branching % o_.topics);
    for (std::int32_t topic = 0; topic < topics_; ++topic) {
      c.rows.push_back(row_of_eos(topic, openers));
      set_row(topic, c.eos());
    }
    return c;
  }

 private:
  /// The last successor is the next word on the ring, so that every word can be reached from every other word.
  Row row_of_word(std::int32_t word) {
    Row row;
    const auto has = [&](std::int32_t w) {
      return w == after_[static_cast<std::size_t>(word)] ||
             std::any_of(row.begin(), row.end(), [&](const Successor& s) { return s.token == w; });
    };
    while (static_cast<std::int64_t>(row.size()) < o_.branching) {
      auto w = after_[static_cast<std::size_t>(word)];
      if (static_cast<std::int64_t>(row.size()) + 1 < o_.branching) {
        w = frequent_word();
        if (has(w)) continue;
      }
      row.push_back({w, zipf(row.size(), successors_)});
    }
    const auto end = 1 + successors_.below(2 * certain / static_cast<std::uint64_t>(o_.sentence));
    scale(row, certain - end);
    row.push_back({words_, end});
    return row;
  }

  /// Draws a word; small numbers are more likely, by a power law, as in natural language.
  std::int32_t frequent_word() {
    const auto u = successors_.bits();
    return static_cast<std::int32_t>((u * u >> 32) * u / certain * static_cast<std::uint64_t>(words_) / certain);
  }

  Row row_of_eos(std::int32_t topic, const std::vector<std::int32_t>& openers) {
    Row row;
    for (std::int32_t t = 0; t < topics_; ++t)
      for (std::int64_t i = 0; i < o_.branching; ++i) {
        const auto boost = static_cast<std::uint64_t>(t == topic ? std::max(1, topics_ - 1) : 1);
        row.push_back({openers[static_cast<std::size_t>(t * o_.branching + i)],
                       boost * zipf(static_cast<std::size_t>(i), successors_)});
      }
    scale(row, certain);
    return row;
  }

  const ChainOptions o_;
  const std::int32_t words_, topics_;
  Draws successors_;
  std::vector<std::int32_t> after_;  ///< for each word the next one on a ring through all words
};

}  // namespace

TopicChain make_chain(const ChainOptions& options) {
  check(options);
  return Maker(options).make();
}

std::int32_t draw(const Row& row, std::uint32_t bits) {
  std::uint64_t left = bits;
  for (const auto& s : row) {
    if (left < s.weight) return s.token;
    left -= s.weight;
  }
  fail("internal error: the weights of a row do not sum up to 2^32");
}

}  // namespace keelson::lm
