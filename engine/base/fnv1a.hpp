#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

namespace keelson {

/// 64-bit FNV-1a (Fowler, Noll, Vo), continued from `hash`.
inline std::uint64_t fnv1a(const void* data, std::size_t bytes, std::uint64_t hash = 14695981039346656037ull) {
  const auto* p = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ p[i]) * 1099511628211ull;
  return hash;
}

/// The hash of several texts and numbers, one after the other.
class Digest {
 public:
  /// Adds the length, too, so that ("ab", "c") differs from ("a", "bc").
  Digest& add(std::string_view text) {
    add(static_cast<std::uint64_t>(text.size()));
    hash_ = fnv1a(text.data(), text.size(), hash_);
    return *this;
  }
  /// Adds the bytes of the value in memory.
  template <class T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  Digest& add(T number) {
    hash_ = fnv1a(&number, sizeof number, hash_);
    return *this;
  }
  /// Adds the number of elements, and all elements.
  template <class T>
  Digest& add(const std::vector<T>& numbers) {
    add(static_cast<std::uint64_t>(numbers.size()));
    for (const T& n : numbers) add(n);
    return *this;
  }
  /// The hash of everything that was added so far.
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = fnv1a(nullptr, 0);
};

}  // namespace keelson
