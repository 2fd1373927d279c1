#include "engine/graph/arena.hpp"

namespace keelson {

void Arena::reserve(std::size_t bytes) {
  if (bytes <= bytes_) return;
  block_.reset();  // before the new one is there: both at once might not fit
  block_ = context_.device().allocate(bytes, "arena of activations and gradients");
  bytes_ = bytes;
  ++generation_;
}

}  // namespace keelson
