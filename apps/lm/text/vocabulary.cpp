#include "apps/lm/text/vocabulary.hpp"

#include <algorithm>
#include <limits>

#include <fmt/ranges.h>

#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"

namespace keelson::lm {
namespace {

/// The tokens of the scan that the vocabulary keeps, in their order; all others are counted as <unk>.
std::vector<TokenCount> kept(const TextScan& scan, const VocabularyOptions& o) {
  const auto specials = special_tokens(scan.level);
  std::vector<TokenCount> special_counts, ordinary;
  for (const auto s : specials) special_counts.push_back({std::string(s), 0});
  const auto room = static_cast<std::size_t>(o.max_size == 0 ? std::numeric_limits<std::int32_t>::max() : o.max_size) -
                    specials.size();
  std::int64_t dropped = 0;
  for (const auto& t : scan.types) {
    const auto special = std::find(specials.begin(), specials.end(), t.token);
    if (special != specials.end())
      special_counts[static_cast<std::size_t>(special - specials.begin())].count = t.count;
    else if (ordinary.size() < room && t.count >= o.min_count)
      ordinary.push_back(t);
    else
      dropped += t.count;
  }
  special_counts[0].count += dropped;
  ordinary.insert(ordinary.end(), special_counts.begin(), special_counts.end());
  std::sort(ordinary.begin(), ordinary.end(), comes_before);
  return ordinary;
}

}  // namespace

std::vector<std::string_view> special_tokens(TokenLevel level) {
  if (level == TokenLevel::word) return {unknown_token, end_of_sentence};
  return {unknown_token};
}

Vocabulary::Vocabulary(const TextScan& scan, const VocabularyOptions& o) : level_(scan.level) {
  const auto specials = special_tokens(scan.level);
  const auto least = static_cast<std::int64_t>(specials.size()) + 1;
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (o.max_size != 0 && (o.max_size < least || o.max_size > most))
    refuse("a vocabulary of {} tokens is not possible. Expected {} to {}, including {}, or 0 for all tokens",
           o.max_size, least, most, fmt::join(specials, " and "));
  const auto tokens = kept(scan, o);
  if (tokens.size() == specials.size())
    refuse(
        "no token of {} except {} occurs at least {} times. Expected some for the vocabulary; give a smaller "
        "--min-count",
        scan.name(), fmt::join(specials, " and "), o.min_count);
  for (const auto& t : tokens) add(t.token, t.count);
  unknown_ = table_.find(unknown_token);
}

void Vocabulary::add(std::string_view token, std::int64_t count) {
  table_.add(token);
  counts_.push_back(count);
}

std::string_view Vocabulary::token(std::int32_t id) const {
  KEELSON_EXPECT(id >= 0 && id < size());
  return table_.token(id);
}

std::int64_t Vocabulary::left_out(const TextScan& scan) const {
  std::int64_t n = 0;
  for (const auto& t : scan.types)
    if (!contains(t.token)) n += t.count;
  return n;
}

std::uint64_t Vocabulary::hash() const {
  std::uint64_t h = fnv1a(nullptr, 0);
  const auto add_line = [&](std::string_view text) {
    h = fnv1a(text.data(), text.size(), h);
    h = fnv1a("\n", 1, h);
  };
  add_line(to_string(level_));
  for (std::int32_t i = 0; i < size(); ++i) add_line(table_.token(i));
  return h;
}

}  // namespace keelson::lm
