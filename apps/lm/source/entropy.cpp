#include "apps/lm/source/entropy.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/error.hpp"

namespace keelson::lm {
namespace {

double probability(const Successor& s) { return static_cast<double>(s.weight) / static_cast<double>(certain); }

/// -p log p
double surprise(double p) { return p > 0 ? -p * std::log(p) : 0; }

/// The joint frequency of the last tokens `context` (one or two, as a number) and of the state after them.
struct Belief {
  std::int64_t context;
  std::int32_t state;
  double weight;
};

std::vector<Belief> beliefs(const TopicChain& chain, const std::vector<double>& stationary, int order) {
  std::vector<Belief> all;
  for (std::int32_t state = 0; state < chain.states(); ++state) {
    const double weight = stationary[static_cast<std::size_t>(state)];
    if (weight == 0) continue;
    const std::int64_t last = chain.token_of(state);
    if (order < 3) {
      all.push_back({order == 1 ? 0 : last, state, weight});
      continue;
    }
    for (const auto& s : chain.row(state))
      all.push_back({last * chain.tokens() + s.token, chain.next(state, s.token), weight * probability(s)});
  }
  std::stable_sort(all.begin(), all.end(), [](const Belief& a, const Belief& b) { return a.context < b.context; });
  return all;
}

}  // namespace

std::vector<double> stationary(const TopicChain& chain) {
  std::vector<double> now(static_cast<std::size_t>(chain.states())), then(now.size());
  now[static_cast<std::size_t>(chain.start())] = 1;
  for (int i = 0; i < 100000; ++i) {
    std::fill(then.begin(), then.end(), 0);
    for (std::int32_t state = 0; state < chain.states(); ++state) {
      const double weight = now[static_cast<std::size_t>(state)];
      if (weight == 0) continue;
      for (const auto& s : chain.row(state))
        then[static_cast<std::size_t>(chain.next(state, s.token))] += weight * probability(s);
    }
    // Keeping half of the old vector makes alternating chains converge, too, e.g. chains with only sentences of even
    // length. The sum is 1, except for rounding.
    const double all = std::accumulate(then.begin(), then.end(), 0.0);
    double change = 0;
    for (std::size_t s = 0; s < now.size(); ++s) {
      then[s] = (then[s] / all + now[s]) / 2;
      change += std::abs(then[s] - now[s]);
    }
    now.swap(then);
    if (change < 1e-14) return now;
  }
  fail("the frequencies of {} states do not converge", chain.states());
}

double entropy_rate(const TopicChain& chain, const std::vector<double>& stationary) {
  double h = 0;
  for (std::int32_t state = 0; state < chain.states(); ++state)
    for (const auto& s : chain.row(state)) h += stationary[static_cast<std::size_t>(state)] * surprise(probability(s));
  return h;
}

double ngram_entropy(const TopicChain& chain, const std::vector<double>& stationary, int order) {
  KEELSON_EXPECT(order >= 1 && order <= 3);
  const auto all = beliefs(chain, stationary, order);
  std::vector<double> mixture(static_cast<std::size_t>(chain.tokens()));
  std::vector<std::int32_t> touched;
  double h = 0;
  for (auto group = all.begin(); group != all.end();) {
    double weight = 0;
    auto b = group;
    for (; b != all.end() && b->context == group->context; ++b) {
      weight += b->weight;
      for (const auto& s : chain.row(b->state)) {
        auto& m = mixture[static_cast<std::size_t>(s.token)];
        if (m == 0) touched.push_back(s.token);
        m += b->weight * probability(s);
      }
    }
    for (const auto token : touched) {
      auto& m = mixture[static_cast<std::size_t>(token)];
      h += weight * surprise(m / weight);
      m = 0;
    }
    touched.clear();
    group = b;
  }
  return h;
}

}  // namespace keelson::lm
