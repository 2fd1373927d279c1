#include "apps/lm/text/token_table.hpp"

#include <functional>
#include <limits>

#include "engine/base/error.hpp"

namespace keelson::lm {
namespace {

std::uint32_t hash_of(std::string_view token) {
  const std::uint64_t h = std::hash<std::string_view>{}(token);
  return static_cast<std::uint32_t>(h ^ (h >> 32));
}

std::size_t byte_of(std::string_view token) { return static_cast<unsigned char>(token[0]); }

}  // namespace

TokenTable::TokenTable() : slots_(64) { of_byte_.fill(-1); }

std::string_view TokenTable::token(std::int32_t number) const {
  const auto begin = begins_[static_cast<std::size_t>(number)], end = begins_[static_cast<std::size_t>(number) + 1];
  return std::string_view(bytes_).substr(begin, end - begin);
}

/// The slot of the token, or the free slot for it.
std::size_t TokenTable::slot_of(std::string_view token_, std::uint32_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& s = slots_[i];
    if (s.number < 0 || (s.hash == hash && token(s.number) == token_)) return i;
  }
}

std::int32_t TokenTable::find(std::string_view token) const {
  if (token.size() == 1) return of_byte_[byte_of(token)];
  return slots_[slot_of(token, hash_of(token))].number;
}

std::int32_t TokenTable::append(std::string_view token) {
  if (size() == std::numeric_limits<std::int32_t>::max()) refuse("more than 2^31 different tokens; is this a text?");
  bytes_ += token;
  begins_.push_back(bytes_.size());
  return size() - 1;
}

std::int32_t TokenTable::add(std::string_view token) {
  if (token.size() == 1) {
    auto& number = of_byte_[byte_of(token)];
    if (number < 0) number = append(token);
    return number;
  }
  const auto hash = hash_of(token);
  const auto i = slot_of(token, hash);
  if (slots_[i].number >= 0) return slots_[i].number;
  const auto number = append(token);
  slots_[i] = {hash, number};
  if (2 * begins_.size() > slots_.size()) grow();
  return number;
}

void TokenTable::grow() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& s : old) {
    if (s.number < 0) continue;
    std::size_t i = s.hash & mask;
    while (slots_[i].number >= 0) i = (i + 1) & mask;
    slots_[i] = s;
  }
}

}  // namespace keelson::lm
