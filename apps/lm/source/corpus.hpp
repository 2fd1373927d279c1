#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "apps/lm/source/topic_chain.hpp"

namespace keelson::lm {

/// Pronounceable words of consonants and vowels, all different; the first ones are the shortest.
std::vector<std::string> made_up_words(std::int64_t count, std::uint64_t seed);

/// Called now and then with the tokens written so far.
using CorpusProgress = std::function<void(std::int64_t tokens)>;

/// Writes a text of at least `tokens` tokens, the newlines included, up to the end of a sentence; a line per sentence.
/// The text is a function of (chain, seed, split). Returns the tokens written. Throws Error if the disk refuses; what
/// `path` held before is then untouched.
std::int64_t write_corpus(const TopicChain& chain, const std::vector<std::string>& words, std::uint64_t seed,
                          std::uint64_t split, std::int64_t tokens, const std::filesystem::path& path,
                          const CorpusProgress& progress = {});

}  // namespace keelson::lm
