#include "apps/common/option.hpp"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/base/printable.hpp"

namespace keelson::app {
namespace {

template <class T>
struct ElementOf {
  using type = T;
};
template <class T>
struct ElementOf<std::vector<T>> {
  using type = T;
};

/// "40G" as a number of bytes.
std::optional<std::uint64_t> parse_bytes(std::string text) {
  static const std::string suffixes = "KMGTP";
  if (!text.empty() && (text.back() == 'B' || text.back() == 'b')) text.pop_back();
  if (!text.empty() && text.back() == 'i') text.pop_back();
  int shift = 0;
  if (!text.empty()) {
    const auto at = suffixes.find(static_cast<char>(std::toupper(static_cast<unsigned char>(text.back()))));
    if (at != std::string::npos) {
      shift = 10 * (static_cast<int>(at) + 1);
      text.pop_back();
    }
  }
  const auto number = parse_number<std::uint64_t>(text);
  if (!number || *number > std::numeric_limits<std::uint64_t>::max() >> shift) return std::nullopt;
  return *number << shift;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t comma; (comma = text.find(',', begin)) != std::string::npos; begin = comma + 1)
    parts.push_back(text.substr(begin, comma - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

std::string text_of(const std::string& value) { return value; }
std::string text_of(bool value) { return value ? "true" : "false"; }
template <class T>
std::string text_of(const T& value) {
  return fmt::format("{}", value);
}
template <class T>
std::string text_of(const std::vector<T>& values) {
  return fmt::format("{}", fmt::join(values, ","));
}

}  // namespace

Option& Option::positive() {
  positive_ = true;
  return *this;
}

Option& Option::non_negative() {
  least_ = 0;
  return *this;
}

Option& Option::between(double least, double most) {
  least_ = least;
  most_ = most;
  return *this;
}

Option& Option::one_of(std::vector<std::string> words) {
  words_ = std::move(words);
  option_->type_name(fmt::format("{}", fmt::join(words_, "|")));
  return *this;
}

Option& Option::comma_separated() {
  commas_ = true;
  return *this;
}

Option& Option::byte_size() {
  bytes_ = true;
  return *this;
}

Option& Option::zero_as(std::string word) {
  zero_ = std::move(word);
  if (shows_default_) option_->default_str(text());
  return *this;
}

Option& Option::value_optional() {
  option_->expected(0, 1);
  optional_ = true;
  return *this;
}

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::stored() {
  stored_ = true;
  return *this;
}

Option& Option::not_stored() {
  stored_ = false;
  return *this;
}

Option& Option::output() {
  output_ = true;
  return *this;
}

Option& Option::same_for_members() {
  same_ = true;
  return *this;
}

Option& Option::differs_between_ranks() {
  differs_ = true;
  return *this;
}

bool Option::given() const { return option_->count() > 0; }

std::string Option::text() const {
  if (!given() && !filled_ && !shows_default_) return "";
  const std::string text = std::visit([](const auto* target) { return text_of(*target); }, target_);
  return text == "0" && !zero_.empty() ? zero_ : text;
}

std::vector<std::string> Option::given_texts() const {
  if (!given()) return {};
  if (const auto* const* text = std::get_if<std::string*>(&target_)) return {**text};
  if (const auto* const* texts = std::get_if<std::vector<std::string>*>(&target_)) return **texts;
  return {};
}

std::string Option::expected() const {
  const std::string or_word = zero_.empty() ? "" : ", or " + zero_;
  if (!words_.empty()) return fmt::format("one of {}", fmt::join(words_, ", "));
  if (bytes_) return "a size in bytes, with or without a suffix: 4096, 512M, 40G" + or_word;
  const bool whole = !std::holds_alternative<double*>(target_) && !std::holds_alternative<float*>(target_);
  std::string kind = whole ? "a whole number" : "a number";
  if (least_ && most_) return fmt::format("{} from {} to {}", kind, *least_, *most_);
  if (positive_ && whole) return kind + " of at least 1";
  if (positive_) return kind + " above 0";
  if (least_) return fmt::format("{} of at least {}{}", kind, *least_, or_word);
  return kind + or_word;
}

void Option::read(const std::vector<std::string>& given) {
  std::vector<std::string> words = given;
  if (commas_) {
    words.clear();
    for (const auto& word : given)
      for (auto& part : split(word)) words.push_back(std::move(part));
  }
  const bool narrow = std::holds_alternative<int*>(target_) || std::holds_alternative<std::vector<int>*>(target_);
  const auto refuse_word = [&](const std::string& word) {
    constexpr auto largest = std::numeric_limits<int>::max();
    if (narrow && parse_number<std::int64_t>(word).value_or(0) > largest)
      refuse("--{}: found '{}', expected at most {}", name_, printable(word), largest);
    refuse("--{}: found '{}', expected {}", name_, printable(word), expected());
  };
  const auto element = [&]<class T>(const std::string& word, T& to) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (!words_.empty() && std::find(words_.begin(), words_.end(), word) == words_.end()) refuse_word(word);
      to = word;
    } else {
      std::optional<T> value = parse_number<T>(word);
      if constexpr (std::is_same_v<T, std::uint64_t> || std::is_same_v<T, std::int64_t>) {
        const auto bytes = bytes_ ? parse_bytes(word) : std::nullopt;
        if (bytes && std::in_range<T>(*bytes)) value = static_cast<T>(*bytes);
      }
      if (!zero_.empty() && word == zero_) value = T{};
      if (!value) refuse_word(word);
      const auto number = static_cast<double>(*value);
      if ((positive_ && !(number > 0)) || (least_ && number < *least_) || (most_ && number > *most_)) refuse_word(word);
      to = *value;
    }
  };
  const auto read_into = [&]<class T>(T* target) {
    if constexpr (std::is_same_v<T, bool>) {
      if (words.back() != "true" && words.back() != "false")
        refuse("--{}: found '{}', expected true or false", name_, printable(words.back()));
      *target = words.back() == "true";
    } else if constexpr (std::is_same_v<T, typename ElementOf<T>::type>) {
      element(words.back(), *target);
    } else {
      T values(words.size());
      for (std::size_t i = 0; i < words.size(); ++i) element(words[i], values[i]);
      *target = std::move(values);
    }
  };
  if (words.empty()) words.emplace_back();
  if (optional_ && words.back().empty()) return;
  std::visit(read_into, target_);
}

}  // namespace keelson::app
