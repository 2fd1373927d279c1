#pragma once

#include <vector>

#include "apps/lm/source/topic_chain.hpp"

/// Exact properties of a source, in nats. A perplexity is exp() of an entropy per token.
namespace keelson::lm {

/// (states) how often each state occurs in endless text, by power iteration to 1e-12. Throws Error if that does not
/// end.
std::vector<double> stationary(const TopicChain& chain);

/// Of the next token, for those who know the source and all tokens so far: no model does better.
double entropy_rate(const TopicChain& chain, const std::vector<double>& stationary);

/// Of the next token, for those who know the source but only the last `order - 1` tokens, order 1 ... 3: the best
/// possible unigram, bigram and trigram model.
double ngram_entropy(const TopicChain& chain, const std::vector<double>& stationary, int order);

}  // namespace keelson::lm
