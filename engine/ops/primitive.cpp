#include "engine/ops/primitive.hpp"

namespace keelson::ops {

std::string_view to_string(Verb v) {
  constexpr std::string_view names[] = {"forward", "backward_data", "backward_weights"};
  return names[static_cast<int>(v)];
}

}  // namespace keelson::ops
