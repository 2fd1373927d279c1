#include "engine/graph/arena.hpp"

namespace keelson {

void Arena::reserve(std::size_t bytes) {
  if (bytes <= bytes_) return;
  block_.reset();  // frees the old block before the new one is allocated: both might not fit at once
  block_ = context_.device().allocate(bytes, "arena of activations and gradients");
  bytes_ = bytes;
  ++generation_;
}

}  // namespace keelson
