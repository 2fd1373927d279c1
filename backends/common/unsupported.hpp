#pragma once

#include "engine/base/error.hpp"

namespace keelson::backends {

/// Thrown while a primitive is being made; its factory or maker turns it into the reason why the op is declined.
class Unsupported : public Error {
 public:
  using Error::Error;
};

template <class... A>
[[noreturn]] void decline(fmt::format_string<A...> text, A&&... args) {
  throw Unsupported(fmt::format(text, std::forward<A>(args)...));
}

}  // namespace keelson::backends
