#pragma once

namespace keelson {

/// A list of types, to call a function for each type.
template <class... T>
struct TypeList {};

/// Calls `visit.template operator()<T>()` for each type, in their order.
template <class... T, class Visit>
void for_each_type(TypeList<T...>, Visit&& visit) {
  (visit.template operator()<T>(), ...);
}

}  // namespace keelson
