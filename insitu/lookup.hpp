#pragma once

#include <map>
#include <string>

#include "engine/base/error.hpp"

namespace keelson::insitu {

/// The thing of this name. Throws InputError that lists those there are. `what`: "field"; `who`: who asks for it.
template <class Things>
auto& find(Things& things, const std::string& name, const std::string& what, const std::string& who) {
  const auto found = things.find(name);
  if (found != things.end()) return found->second;
  std::string known;
  for (const auto& [key, thing] : things) known += (known.empty() ? "" : ", ") + key;
  refuse("{}: there is no {} '{}'. Expected one of: {}", who, what, name, known.empty() ? "none exists yet" : known);
}

}  // namespace keelson::insitu
