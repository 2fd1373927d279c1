#include <algorithm>
#include <charconv>
#include <optional>

#include "apps/lm/text/detail/utf8.hpp"
#include "apps/lm/text/vocabulary.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/base/error.hpp"
#include "engine/data/files/read_once.hpp"

/// The text form of a vocabulary.
namespace keelson::lm {
namespace {

constexpr std::string_view format_name = "keelson-vocabulary 1";

struct Escape {
  char letter, meaning;
};
constexpr Escape escapes[] = {{'n', '\n'}, {'t', '\t'}, {'r', '\r'}, {'\\', '\\'}};

std::string escaped(std::string_view token) {
  std::string text;
  for (const char c : token) {
    const auto* e = std::find_if(std::begin(escapes), std::end(escapes), [&](auto& x) { return x.meaning == c; });
    if (e == std::end(escapes))
      text += c;
    else
      text.append(1, '\\').append(1, e->letter);
  }
  return text;
}

/// The text without escapes; nothing for an unknown or incomplete escape.
std::optional<std::string> unescaped(std::string_view text) {
  std::string token;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      token += text[i];
      continue;
    }
    ++i;
    const auto* e = std::find_if(std::begin(escapes), std::end(escapes),
                                 [&](auto& x) { return i < text.size() && x.letter == text[i]; });
    if (e == std::end(escapes)) return std::nullopt;
    token += e->meaning;
  }
  return token;
}

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number n{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size() || n < 0) return std::nullopt;
  return n;
}

/// Whether the text can be a token: a word has no white space, a character is one code point.
bool is_token(std::string_view text, TokenLevel level) {
  if (text.empty()) return false;
  if (text == unknown_token) return true;
  if (level == TokenLevel::word) return text.find_first_of(" \t\n\v\f\r") == std::string_view::npos;
  return text.size() == detail::utf8_length(text[0]);
}

/// The lines of a text, counted from 1.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  std::optional<std::string_view> next() {
    if (rest_.empty()) return std::nullopt;
    ++number_;
    const auto end = std::min(rest_.find('\n'), rest_.size());
    auto line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);  // a CR LF of an editor; a CR that is a token is escaped
    return line;
  }
  std::int64_t number() const { return number_; }

 private:
  std::string_view rest_;
  std::int64_t number_ = 0;
};

struct Header {
  TokenLevel level;
  std::int32_t size;
};

std::optional<Header> header_in(std::string_view line) {
  if (!line.starts_with(format_name)) return std::nullopt;
  line.remove_prefix(format_name.size());
  for (const auto level : {TokenLevel::word, TokenLevel::character}) {
    const auto words = fmt::format(" {} ", to_string(level));
    if (!line.starts_with(words)) continue;
    if (const auto size = number_in<std::int32_t>(line.substr(words.size()))) return Header{level, *size};
  }
  return std::nullopt;
}

}  // namespace

std::string Vocabulary::to_text() const {
  auto text = fmt::format("{} {} {}\n", format_name, to_string(level_), size());
  for (std::int32_t i = 0; i < size(); ++i) text += fmt::format("{}\t{}\n", escaped(table_.token(i)), count(i));
  return text;
}

Vocabulary Vocabulary::from_text(std::string_view text, const std::string& source) {
  constexpr std::string_view advice = "make one with keelson-lm vocab";
  if (detail::valid_utf8(text).bytes != text.size())
    refuse("{}: is not UTF-8 text. Expected a vocabulary; {}", source, advice);
  Lines lines(text);
  const auto first = lines.next().value_or("");
  const auto header = header_in(first);
  if (!header)
    refuse("{}: begins with '{}'. Expected '{} word SIZE' or '{} character SIZE'; {}", source, first.substr(0, 60),
           format_name, format_name, advice);

  Vocabulary v(header->level);
  while (const auto line = lines.next()) {
    const auto tab = line->find('\t');
    const auto token = unescaped(line->substr(0, tab));
    const auto count = tab == line->npos ? std::nullopt : number_in<std::int64_t>(line->substr(tab + 1));
    if (!token || !count || !is_token(*token, v.level_))
      refuse("{}: line {} is '{}'. Expected a {}, a tab and its count; {}", source, lines.number(), line->substr(0, 60),
             to_string(v.level_), advice);
    if (v.contains(*token))
      refuse("{}: line {} repeats '{}'. Expected every token once", source, lines.number(), escaped(*token));
    v.add(*token, *count);
  }
  if (v.size() != header->size)
    refuse("{}: has {} tokens, but its first line says {}. Was it cut off? {}", source, v.size(), header->size, advice);
  for (const auto needed : special_tokens(v.level_))
    if (!v.contains(needed))
      refuse("{}: has no {}. Expected it in every vocabulary of {}s", source, needed, to_string(v.level_));
  v.unknown_ = v.table_.find(unknown_token);
  return v;
}

Vocabulary Vocabulary::load(const std::filesystem::path& path, Communicator* communicator) {
  return from_text(read_once(path.string(), communicator), path.string());
}

void Vocabulary::save(const std::filesystem::path& path) const { write_atomically(path, to_text(), Target::output); }

}  // namespace keelson::lm
