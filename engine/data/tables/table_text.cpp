#include "engine/data/tables/table_text.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "engine/base/error.hpp"

namespace keelson {
namespace {

constexpr std::int64_t block_bytes = 1 << 20, longest_row = 1 << 26;

/// Counts a character in some bytes of a file.
std::int64_t count_of(const RawFile& file, std::int64_t begin, std::int64_t end, char wanted) {
  std::vector<char> block(static_cast<std::size_t>(std::clamp<std::int64_t>(end - begin, 0, block_bytes)));
  std::int64_t count = 0;
  for (std::int64_t at = begin; at < end; at += block_bytes) {
    const std::int64_t n = std::min(block_bytes, end - at);
    file.read(block.data(), n, at);
    count += std::count(block.data(), block.data() + n, wanted);
  }
  return count;
}

/// The end of the row that begins at `p`: the next line feed outside quotes; null if there is none before `end`.
/// `in_quotes`: whether `p` is within quotes.
const char* end_of_row(const char* p, const char* end, bool in_quotes, bool has_quotes) {
  if (p == end) return nullptr;
  if (!has_quotes) return static_cast<const char*>(std::memchr(p, '\n', static_cast<std::size_t>(end - p)));
  for (; p < end; ++p) {
    if (*p == '"') in_quotes = !in_quotes;
    if (*p == '\n' && !in_quotes) return p;
  }
  return nullptr;
}

/// The bytes of a file from a position on, of which some are in memory.
class TextWindow {
 public:
  TextWindow(const RawFile& file, std::int64_t at) : file_(file), at_(at), size_(file.size()) {}
  const char* begin() const { return bytes_.data() + used_; }
  const char* end() const { return bytes_.data() + bytes_.size(); }
  std::int64_t position() const { return at_ - (end() - begin()); }  ///< of begin()
  bool is_last() const { return at_ == size_; }                      ///< no more bytes follow
  void take(const char* to) { used_ = static_cast<std::size_t>(to - bytes_.data()); }
  /// Forgets what was taken, and reads more.
  void extend() {
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(used_));
    used_ = 0;
    const std::int64_t n = std::min(std::max<std::int64_t>(block_bytes, std::ssize(bytes_)), size_ - at_);
    const std::size_t before = bytes_.size();
    bytes_.resize(before + static_cast<std::size_t>(n));
    file_.read(bytes_.data() + before, n, at_);
    at_ += n;
  }

 private:
  const RawFile& file_;
  std::int64_t at_, size_;
  std::vector<char> bytes_;
  std::size_t used_ = 0;
};

/// Moves the window behind the row in which the range begins, if a row does not begin there.
bool find_first_row(const RawFile& file, const TextRange& range, TextWindow& window) {
  if (range.begin == 0) return true;
  char before = 0;
  file.read(&before, 1, range.begin - 1);
  if (before == '\n' && !range.in_quotes) return true;
  for (;;) {
    if (const char* end = end_of_row(window.begin(), window.end(), range.in_quotes, range.has_quotes)) {
      window.take(end + 1);
      return true;
    }
    if (window.is_last()) return false;
    window.extend();
  }
}

}  // namespace

std::int64_t count_quotes(const RawFile& file, std::int64_t begin, std::int64_t end) {
  return count_of(file, begin, end, '"');
}

std::int64_t line_of(const RawFile& file, std::int64_t at) { return 1 + count_of(file, 0, at, '\n'); }

void for_each_row(const RawFile& file, const TextRange& range,
                  const std::function<void(std::string_view row, std::int64_t at)>& visit) {
  TextWindow window(file, range.begin);
  if (!find_first_row(file, range, window)) return;
  while (window.position() < range.end) {
    const char* end = end_of_row(window.begin(), window.end(), false, range.has_quotes);
    if (!end && !window.is_last()) {
      if (window.end() - window.begin() > longest_row)
        refuse("{}: the row at line {} has more than {} bytes. Expected a shorter one; does it lack a closing quote?",
               file.path(), line_of(file, window.position()), longest_row);
      window.extend();
      continue;
    }
    const char* const begin = window.begin();
    const char* text_end = end ? end : window.end();
    if (text_end > begin && text_end[-1] == '\r') --text_end;
    std::string_view row(begin, text_end);
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    if (window.position() == 0 && row.starts_with(byte_order_mark)) row.remove_prefix(byte_order_mark.size());
    if (!row.empty()) visit(row, window.position());
    if (!end) return;
    window.take(end + 1);
  }
}

std::string_view next_field(std::string_view& row, char delimiter, std::string& memory) {
  const auto remove = [&](std::size_t bytes) {
    const bool is_last = bytes >= row.size();
    row = is_last ? std::string_view() : row.substr(bytes + 1);
    if (!is_last && row.empty()) row = std::string_view("");  // an empty field follows
  };
  if (row.empty() || row[0] != '"') {
    const std::size_t bytes = std::min(row.find(delimiter), row.size());
    const std::string_view field = row.substr(0, bytes);
    remove(bytes);
    return field;
  }
  memory.clear();
  std::size_t at = 1;
  for (; at < row.size(); ++at) {
    if (row[at] == '"') {
      if (at + 1 == row.size() || row[at + 1] != '"') break;
      ++at;  // a doubled quote
    }
    memory += row[at];
  }
  const std::size_t bytes = std::min(row.find(delimiter, std::min(at + 1, row.size())), row.size());
  remove(bytes);
  return memory;
}

std::vector<std::string> fields_of_row(std::string_view row, char delimiter) {
  std::vector<std::string> fields;
  std::string memory;
  while (row.data()) fields.emplace_back(next_field(row, delimiter, memory));
  return fields;
}

bool parse_field(std::string_view text, float& number) {
  const char *p = text.data(), *end = p + text.size();
  while (p < end && *p == ' ') ++p;
  while (p < end && end[-1] == ' ') --end;
  if (p < end && *p == '+') ++p;
  const auto [last, error] = std::from_chars(p, end, number);
  if (error == std::errc::result_out_of_range && last == end) {  // infinity, or what double makes of a tiny number
    double wide = HUGE_VAL;
    std::from_chars(p, end, wide);
    number = static_cast<float>(wide);
    return true;
  }
  return error == std::errc() && last == end && p < end;
}

namespace {

constexpr std::uint64_t eight(std::uint64_t byte) { return byte * 0x0101010101010101; }

constexpr double powers_of_10[] = {1e0, 1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7, 1e8,
                                   1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16};
constexpr std::uint64_t integer_powers_of_10[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

/// Up to eight digits: their number, and the integer that they are.
struct Digits {
  int count;
  std::uint64_t value;
};

/// The digits with which these eight bytes begin, without a branch for each. (Lemire, "Number parsing at a gigabyte per
/// second", 2021, arXiv 2101.11408.)
Digits digits_at(const char* p) {
  std::uint64_t bytes;
  std::memcpy(&bytes, p, sizeof bytes);
  bytes ^= eight('0');  // digits become their values
  const std::uint64_t others = (((bytes & eight(0x7F)) + eight(0x76)) | bytes) & eight(0x80);
  const int count = others == 0 ? 8 : std::countr_zero(others) / 8;
  const int half = 4 * (8 - count);
  std::uint64_t v = bytes << half << half;  // zeros in front of the digits
  constexpr std::uint64_t mask = 0x000000FF000000FF;
  v = v * 10 + (v >> 8);
  v = ((v & mask) * 0x000F424000000064 + (v >> 16 & mask) * 0x0000271000000001) >> 32;
  return {count, v};
}

/// A number of at most 8 digits before the point, 19 in all and some more behind, without an exponent. Returns its end;
/// null for any other field, and where fewer than 48 bytes are left.
const char* parse_short_number(const char* p, const char* end, char delimiter, float& number) {
  constexpr std::ptrdiff_t readable = 48;
  constexpr int most_digits = 19;  // below 2^64
  if (end - p < readable) return nullptr;
  const bool is_negative = *p == '-';
  p += is_negative;
  const Digits whole = digits_at(p);
  p += whole.count;
  std::uint64_t mantissa = whole.value;
  int fraction = 0;
  if (*p == '.') {
    ++p;
    for (int group = 0; group < 2; ++group) {
      const Digits next = digits_at(p);
      if (whole.count + fraction + next.count > most_digits) return nullptr;
      mantissa = mantissa * integer_powers_of_10[next.count] + next.value;
      fraction += next.count;
      p += next.count;
      if (next.count < 8) break;
    }
    if (fraction == 16) p += digits_at(p).count;  // too small to matter
  }
  if (*p != delimiter || whole.count + fraction == 0) return nullptr;
  // The double is within 3 of its roundings of the number: 64 bits become 53, the rest of the digits is left out, and
  // the quotient is rounded. The float is the nearest one, unless the double is as near to the middle between two
  // floats.
  const double value = static_cast<double>(mantissa) / powers_of_10[fraction];
  constexpr std::uint64_t below_float = (std::uint64_t{1} << 29) - 1, middle = std::uint64_t{1} << 28, slack = 4;
  if ((std::bit_cast<std::uint64_t>(value) & below_float) - middle + slack <= 2 * slack) return nullptr;
  number = static_cast<float>(is_negative ? -value : value);
  return p;
}

}  // namespace

const char* parse_plain_field(const char* p, const char* end, char delimiter, float& number) {
  if (const char* last = parse_short_number(p, end, delimiter, number)) return last;
  const auto [last, error] = std::from_chars(p, end, number);
  const bool is_number = error == std::errc() && (last == end || *last == delimiter) && std::isfinite(number);
  return is_number ? last : nullptr;
}

char delimiter_of(std::string_view row) {
  std::string outside;
  bool in_quotes = false;
  for (const char c : row) {
    if (c == '"') in_quotes = !in_quotes;
    if (!in_quotes) outside += c;
  }
  char best = ' ';
  std::ptrdiff_t most = 0;
  for (const char c : {',', ';', '\t', '|'})
    if (const auto n = std::count(outside.begin(), outside.end(), c); n > most) {
      most = n;
      best = c;
    }
  return best;
}

}  // namespace keelson
