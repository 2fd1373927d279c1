#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/lm/text/text_bytes.hpp"

namespace keelson::lm {

/// The kind of tokens into which a text is cut.
///
/// word       the text between white space (space, tab, CR, VT, FF); each newline is the token <eos>, and a last
///            line that has words but no newline ends with one too. The rule of the PTB language model's reader.
/// character  UTF-8 code points; a newline is the token "\n".
///
/// With both, CR LF is one newline and a byte order mark at the start of a file is no part of the text.
enum class TokenLevel : std::uint8_t { word, character };

std::string_view to_string(TokenLevel level);  ///< "word", "character"

inline constexpr std::string_view end_of_sentence = "<eos>";
inline constexpr std::string_view unknown_token = "<unk>";

/// Reads the tokens of a text file one after the other, with little memory. Throws InputError, naming file and
/// position, if the file is not UTF-8 text: invalid sequences, NUL bytes, a "word" of more than 1 MiB.
class TokenReader {
 public:
  /// Starts at byte `offset`: 0, or a value of offset() after a call of next(). `file` must outlive this object. Reads
  /// `buffer` bytes at a time.
  TokenReader(const TextBytes& file, TokenLevel level, std::int64_t offset = 0, std::size_t buffer = 256 << 10);
  /// False at the end of the file. `token` is valid until the next call.
  bool next(std::string_view& token);
  /// The position in the file at which the last token of next() begins; for the <eos> of a last line without newline,
  /// the file's size.
  std::int64_t offset() const { return base_ + static_cast<std::int64_t>(begin_); }

 private:
  bool next_word(std::string_view& token);
  bool next_character(std::string_view& token);
  bool take(std::size_t bytes, std::string_view& token);
  bool fill();
  void make_room();
  void check_new_bytes();

  const TextBytes* file_;
  TokenLevel level_;
  std::int64_t file_bytes_;
  std::int64_t base_;       ///< offset in the file of data_[0]
  std::vector<char> data_;  ///< bytes that are read but not used: [at_, valid_) and, up to read_, part of a code point
  std::size_t begin_ = 0;   ///< begin of the last token
  std::size_t at_ = 0;      ///< end of the last token
  std::size_t valid_ = 0, read_ = 0;
  bool line_has_words_;  ///< the last token was no <eos>, so an <eos> follows at the end of the file
};

}  // namespace keelson::lm
