#pragma once

#include <vector>

#include "apps/lm/source/topic_chain.hpp"

/// Exact properties of a source, in nats. A perplexity is exp() of an entropy per token.
namespace keelson::lm {

/// (states) the frequency of each state in an endless text, by power iteration to 1e-12. Throws Error if the iteration
/// does not converge.
std::vector<double> stationary(const TopicChain& chain);

/// Entropy of the next token, given the source and all previous tokens. No model can do better.
double entropy_rate(const TopicChain& chain, const std::vector<double>& stationary);

/// Entropy of the next token, given the source but only the last `order - 1` tokens, order 1 ... 3: that of the best
/// possible unigram, bigram and trigram model.
double ngram_entropy(const TopicChain& chain, const std::vector<double>& stationary, int order);

}  // namespace keelson::lm
