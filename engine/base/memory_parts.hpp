#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/align.hpp"

namespace keelson {

/// Divides a block of memory into consecutive parts, each aligned to 64 bytes like the block. With a null block, adds
/// up the needed bytes and returns null pointers.
class MemoryParts {
 public:
  /// Null: only counts bytes.
  explicit MemoryParts(void* block) : block_(static_cast<std::byte*>(block)) {}

  /// A part of `count` elements.
  template <class T>
  T* take(std::int64_t count) {
    auto* const part = block_ ? reinterpret_cast<T*>(block_ + used_) : nullptr;
    used_ += align64(static_cast<std::size_t>(count) * sizeof(T));
    return part;
  }
  /// A part of `count` bytes.
  std::byte* take_bytes(std::size_t count) { return take<std::byte>(static_cast<std::int64_t>(count)); }
  /// The bytes of all parts so far.
  std::size_t used() const { return used_; }

 private:
  std::byte* block_;
  std::size_t used_ = 0;
};

}  // namespace keelson
