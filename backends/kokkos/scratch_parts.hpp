#pragma once

#include "backends/kokkos/common.hpp"
#include "engine/base/align.hpp"

namespace keelson::kokkos {

/// Hands out consecutive parts of scratch memory, each aligned to 64 bytes. Made with null, it adds up what is needed
/// and hands out null.
class ScratchParts {
 public:
  explicit ScratchParts(void* data) : data_(static_cast<std::byte*>(data)) {}

  /// `count` elements.
  template <class T>
  T* take(Index count) {
    auto* const part = data_ ? reinterpret_cast<T*>(data_ + used_) : nullptr;
    used_ += align64(static_cast<std::size_t>(count) * sizeof(T));
    return part;
  }
  /// Bytes of all parts so far.
  std::size_t used() const { return used_; }

 private:
  std::byte* data_;
  std::size_t used_ = 0;
};

}  // namespace keelson::kokkos
