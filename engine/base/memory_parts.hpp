#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/align.hpp"

namespace keelson {

/// Hands out consecutive parts of a block of memory, each aligned to 64 bytes as the block is. Made with null, it adds
/// up what is needed and hands out null.
class MemoryParts {
 public:
  /// Null: only counts.
  explicit MemoryParts(void* block) : block_(static_cast<std::byte*>(block)) {}

  /// `count` elements.
  template <class T>
  T* take(std::int64_t count) {
    auto* const part = block_ ? reinterpret_cast<T*>(block_ + used_) : nullptr;
    used_ += align64(static_cast<std::size_t>(count) * sizeof(T));
    return part;
  }
  /// That many bytes.
  std::byte* take_bytes(std::size_t count) { return take<std::byte>(static_cast<std::int64_t>(count)); }
  /// Bytes of all parts so far.
  std::size_t used() const { return used_; }

 private:
  std::byte* block_;
  std::size_t used_ = 0;
};

}  // namespace keelson
