#include "apps/lm/text/token_reader.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "apps/lm/text/detail/utf8.hpp"
#include "engine/base/error.hpp"

namespace keelson::lm {
namespace {

constexpr std::size_t longest_word = 1 << 20;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

constexpr auto is_space = [] {
  std::array<bool, 256> table{};
  for (const char c : {' ', '\t', '\n', '\v', '\f', '\r'}) table[static_cast<unsigned char>(c)] = true;
  return table;
}();

bool space(char c) { return is_space[static_cast<unsigned char>(c)]; }

}  // namespace

std::string_view to_string(TokenLevel level) { return level == TokenLevel::word ? "word" : "character"; }

TokenReader::TokenReader(const TextBytes& file, TokenLevel level, std::int64_t offset, std::size_t buffer)
    : file_(&file),
      level_(level),
      file_bytes_(file.size()),
      base_(offset),
      data_(std::max<std::size_t>(buffer, 8)),
      line_has_words_(offset > 0) {  // a token that begins at the end of the file can only be the last line's <eos>
  if (offset == 0 && fill() && std::string_view(data_.data(), valid_).starts_with(byte_order_mark))
    at_ = byte_order_mark.size();
}

bool TokenReader::next(std::string_view& token) {
  return level_ == TokenLevel::word ? next_word(token) : next_character(token);
}

bool TokenReader::take(std::size_t bytes, std::string_view& token) {
  token = {data_.data() + at_, bytes};
  begin_ = at_;
  at_ += bytes;
  return true;
}

bool TokenReader::next_word(std::string_view& token) {
  for (;;) {
    while (at_ < valid_ && space(data_[at_]) && data_[at_] != '\n') ++at_;
    if (at_ < valid_) break;
    if (fill()) continue;
    if (!line_has_words_) return false;
    line_has_words_ = false;
    begin_ = at_;
    token = end_of_sentence;
    return true;
  }
  line_has_words_ = data_[at_] != '\n';
  if (!line_has_words_) {
    take(1, token);
    token = end_of_sentence;
    return true;
  }
  std::size_t length = 1;
  do {
    while (at_ + length < valid_ && !space(data_[at_ + length])) ++length;
  } while (at_ + length == valid_ && fill());
  return take(length, token);
}

bool TokenReader::next_character(std::string_view& token) {
  while (at_ == valid_)
    if (!fill()) return false;
  if (data_[at_] != '\r') return take(detail::utf8_length(data_[at_]), token);
  while (at_ + 1 == valid_ && fill()) continue;
  if (at_ + 1 == valid_ || data_[at_ + 1] != '\n') return take(1, token);
  take(2, token);
  token.remove_prefix(1);
  return true;
}

/// Reads more bytes and keeps the unused ones; false at the end of the file. May add less than a code point.
bool TokenReader::fill() {
  const auto wanted = file_bytes_ - base_ - static_cast<std::int64_t>(read_);
  if (wanted <= 0) {
    if (valid_ < read_)
      refuse("{}: ends at byte {} within a UTF-8 character. Was it cut off? Fetch or make it again", file_->path(),
             file_bytes_);
    return false;
  }
  make_room();
  const auto bytes = std::min(wanted, static_cast<std::int64_t>(data_.size() - read_));
  file_->read(data_.data() + read_, bytes, base_ + static_cast<std::int64_t>(read_));
  read_ += static_cast<std::size_t>(bytes);
  check_new_bytes();
  return true;
}

void TokenReader::make_room() {
  std::memmove(data_.data(), data_.data() + at_, read_ - at_);
  base_ += static_cast<std::int64_t>(at_);
  valid_ -= at_;
  read_ -= at_;
  at_ = 0;
  if (read_ < data_.size()) return;
  if (read_ >= longest_word)
    refuse("{}: has {} bytes without white space from byte {} on. Expected text in words; try --level char",
           file_->path(), read_, base_);
  data_.resize(2 * data_.size());
}

void TokenReader::check_new_bytes() {
  const auto found = detail::valid_utf8({data_.data() + valid_, read_ - valid_});
  valid_ += found.bytes;
  if (!found.bad) return;
  refuse(
      "{}: byte {} is {:#04x}, which is not UTF-8 text. Expected a text file; unpack it if it is compressed, or "
      "convert "
      "it, e.g. with iconv -f LATIN1 -t UTF-8",
      file_->path(), base_ + static_cast<std::int64_t>(valid_), static_cast<unsigned char>(data_[valid_]));
}

}  // namespace keelson::lm
