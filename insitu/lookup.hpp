#pragma once

#include <map>
#include <string>

#include "engine/base/error.hpp"

namespace keelson::insitu {

/// The object of this name. If there is none, throws InputError that lists the existing names. `what`: kind of object,
/// e.g. "field"; `who`: who asks for it.
template <class Things>
auto& find(Things& things, const std::string& name, const std::string& what, const std::string& who) {
  const auto found = things.find(name);
  if (found != things.end()) return found->second;
  std::string known;
  for (const auto& [key, thing] : things) known += (known.empty() ? "" : ", ") + key;
  refuse("{}: there is no {} '{}'. Expected one of: {}", who, what, name, known.empty() ? "none exists yet" : known);
}

}  // namespace keelson::insitu
