#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "apps/lm/text/text_scan.hpp"
#include "apps/lm/text/token_table.hpp"
#include "engine/base/communicator.hpp"

namespace keelson::lm {

struct VocabularyOptions {
  std::int64_t max_size = 0;   ///< number of tokens, special ones included; 0: all
  std::int64_t min_count = 1;  ///< rarer tokens are left out
};

/// The tokens of every vocabulary: <unk>, and for words also <eos>.
std::vector<std::string_view> special_tokens(TokenLevel level);

/// Tokens with ids 0, 1, 2 ... in the order (-count, token), as in the PTB language model's reader. Always contains
/// <unk>, and for words <eos>. Tokens that are left out count as <unk>.
class Vocabulary {
 public:
  /// Throws InputError for options that leave no tokens, or more tokens than 32-bit ids allow.
  explicit Vocabulary(const TextScan& scan, const VocabularyOptions& options = {});

  TokenLevel level() const { return level_; }
  std::int32_t size() const { return table_.size(); }
  /// Unknown tokens have the id of <unk>.
  std::int32_t id(std::string_view token) const {
    const auto found = table_.find(token);
    return found < 0 ? unknown_ : found;
  }
  bool contains(std::string_view token) const { return table_.find(token) >= 0; }
  std::int32_t unknown() const { return unknown_; }
  std::string_view token(std::int32_t id) const;  ///< 0 <= id < size()
  std::int64_t count(std::int32_t id) const {
    return counts_[std::size_t(id)];
  }  ///< occurrences in the text from which the vocabulary was made
  /// The number of tokens of a text that are neither in the vocabulary nor "<unk>".
  std::int64_t left_out(const TextScan& scan) const;

  /// Text form: a header with format, level and size, then a line per token in the order of ids: the token (\n, \t, \r
  /// and \\ stand for newline, tab, CR and backslash), a tab, and its count.
  std::string to_text() const;
  /// Reads the text form. Throws InputError, naming `source` (e.g. the file) and the line.
  static Vocabulary from_text(std::string_view text, const std::string& source);
  /// The vocabulary in a file, which rank 0 reads for all ranks. `communicator` null: one rank. Collective.
  static Vocabulary load(const std::filesystem::path& path, Communicator* communicator = nullptr);
  void save(const std::filesystem::path& path) const;  ///< atomically

  /// A hash of tokens and ids, not of counts: vocabularies with the same hash are interchangeable.
  std::uint64_t hash() const;

 private:
  explicit Vocabulary(TokenLevel level) : level_(level) {}
  void add(std::string_view token, std::int64_t count);

  TokenLevel level_;
  TokenTable table_;
  std::vector<std::int64_t> counts_;
  std::int32_t unknown_ = -1;
};

}  // namespace keelson::lm
