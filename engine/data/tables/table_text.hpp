#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/files/raw_file.hpp"

/// Tables as text: comma-separated values (RFC 4180), with any delimiter. A row ends with a line feed, or carriage
/// return and line feed. A field in double quotes may hold delimiters, ends of lines and, doubled, quotes. The byte
/// order mark of UTF-8 at the beginning is no part of the first row.
namespace keelson {

/// Some bytes of a file of which a reader takes the rows that begin there.
struct TextRange {
  std::int64_t begin = 0;  ///< first byte
  std::int64_t end = 0;    ///< behind the last byte
  bool in_quotes = false;  ///< whether the number of quotes in the file before `begin` is odd
  bool has_quotes = true;  ///< whether there may be quotes
};

/// Number of double quotes in these bytes.
std::int64_t count_quotes(const RawFile& file, std::int64_t begin, std::int64_t end);

/// Calls visit(row, position of its first byte) for each row that begins in the range, in order. Rows are without their
/// ends; empty ones are left out. The last row is read beyond the end of the range. `row` is valid until `visit`
/// returns. Throws InputError for a row of more than 64 MiB, which most likely lacks a closing quote.
void for_each_row(const RawFile& file, const TextRange& range,
                  const std::function<void(std::string_view row, std::int64_t at)>& visit);

/// The next field of a row: its bytes without quotes, from `row`, or, if it had doubled quotes, from `memory`. Removes
/// the field and the delimiter behind it from `row`; `row` has a null pointer behind the last field.
std::string_view next_field(std::string_view& row, char delimiter, std::string& memory);
std::vector<std::string> fields_of_row(std::string_view row, char delimiter);  ///< all fields

/// The number of which the text consists, but for spaces around it. Returns whether there is one. "nan" and "inf" are
/// numbers.
bool parse_field(std::string_view text, float& number);

/// The end of the field that begins at `p`, if it is a finite number without quotes and spaces around it; null for any
/// other field. Several times as fast as next_field() and parse_field().
const char* parse_plain_field(const char* p, const char* end, char delimiter, float& number);

/// The character of , ; tab and | that the row has most often outside quotes; a space if it has none of them.
char delimiter_of(std::string_view row);

/// The number of the line, from 1, in which the byte lies; counts from the beginning of the file.
std::int64_t line_of(const RawFile& file, std::int64_t at);

}  // namespace keelson
