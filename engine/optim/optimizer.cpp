#include "engine/optim/optimizer.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace keelson {

namespace {

bool matches(std::string_view pattern, std::string_view name) {
  if (pattern == "*") return true;
  if (pattern.starts_with('*')) return name.ends_with(pattern.substr(1));
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return name == pattern;
}

}  // namespace

const ParameterGroup* Optimizer::find_group(const std::string& parameter) const {
  for (const ParameterGroup& g : groups)
    for (const std::string& pattern : g.patterns)
      if (matches(pattern, parameter)) return &g;
  return nullptr;
}

ParameterGroup Optimizer::group_of(const std::string& parameter, bool decays) const {
  const ParameterGroup* found = find_group(parameter);
  return found ? *found : ParameterGroup{{}, decays ? weight_decay : 0, 1};
}

bool Optimizer::decays() const {
  return weight_decay != 0 ||
         std::any_of(groups.begin(), groups.end(), [](const ParameterGroup& g) { return g.weight_decay != 0; });
}

std::string Optimizer::shared_settings() const {
  std::string text;
  if (weight_decay != 0) text += fmt::format(", weight decay {}", weight_decay);
  for (const ParameterGroup& g : groups)
    text += fmt::format(", {}: weight decay {} lr x {}", fmt::join(g.patterns, " "), g.weight_decay, g.lr_multiplier);
  if (clip_norm > 0) text += fmt::format(", clip norm {}", clip_norm);
  return text;
}

}  // namespace keelson
