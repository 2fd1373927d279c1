#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "apps/lm/source/topic_chain.hpp"

namespace keelson::lm {

/// Different pronounceable words of consonants and vowels, the shortest ones first.
std::vector<std::string> made_up_words(std::int64_t count, std::uint64_t seed);

/// Called from time to time with the number of tokens written so far.
using CorpusProgress = std::function<void(std::int64_t tokens)>;

/// Writes a text of at least `tokens` tokens, newlines included, up to the end of a sentence; one line per sentence.
/// The text depends only on chain, seed and split. Returns the number of tokens written. Throws Error if writing fails;
/// an earlier file at `path` then stays as it was.
std::int64_t write_corpus(const TopicChain& chain, const std::vector<std::string>& words, std::uint64_t seed,
                          std::uint64_t split, std::int64_t tokens, const std::filesystem::path& path,
                          const CorpusProgress& progress = {});

}  // namespace keelson::lm
