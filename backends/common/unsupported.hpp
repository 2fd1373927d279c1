#pragma once

#include "engine/base/error.hpp"

namespace keelson::backends {

/// Thrown while a primitive is made. The factory or maker turns the exception into the reason for declining the op.
class Unsupported : public Error {
 public:
  using Error::Error;
};

template <class... A>
[[noreturn]] void decline(fmt::format_string<A...> text, A&&... args) {
  throw Unsupported(fmt::format(text, std::forward<A>(args)...));
}

}  // namespace keelson::backends
