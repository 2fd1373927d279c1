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

int Optimizer::moments() const {
  if (kind != Kind::sgd) return 2;
  return momentum != 0 ? 1 : 0;
}

bool Optimizer::moves_only_rows_with_gradient() const {
  const bool decays =
      weight_decay != 0 || std::any_of(groups.begin(), groups.end(), [](const auto& g) { return g.weight_decay != 0; });
  return moments() == 0 && !decays && larc == ops::LarcMode::none;
}

ops::UpdateParams Optimizer::update_for(const std::string& name) const {
  ParameterGroup group{{}, weight_decay, 1};
  for (auto g = groups.rbegin(); g != groups.rend(); ++g)
    for (const auto& pattern : g->patterns)
      if (matches(pattern, name)) group = *g;
  ops::UpdateParams p;
  p.kind = kind == Kind::sgd ? ops::UpdateKind::sgd : ops::UpdateKind::adam;
  (kind == Kind::adamw ? p.decoupled_decay : p.weight_decay) = group.weight_decay;
  p.momentum = momentum;
  p.nesterov = nesterov;
  p.beta1 = beta1;
  p.beta2 = beta2;
  p.epsilon = epsilon;
  p.lr_multiplier = group.lr_multiplier;
  p.clip_norm = clip_norm;
  p.larc = larc;
  p.larc_eta = larc_eta;
  p.larc_floor = larc_floor;
  p.larc_relative = larc_relative;
  return p;
}

std::string Optimizer::to_string() const {
  std::string text;
  if (kind == Kind::sgd) {
    text = "sgd";
    if (momentum != 0) text += fmt::format("{} momentum {}", nesterov ? " nesterov" : "", momentum);
  } else {
    text = fmt::format("{} betas {} {} epsilon {}", kind == Kind::adam ? "adam" : "adamw", beta1, beta2, epsilon);
  }
  if (weight_decay != 0) text += fmt::format(", weight decay {}", weight_decay);
  for (const auto& g : groups)
    text += fmt::format(", {}: weight decay {} lr x {}", fmt::join(g.patterns, " "), g.weight_decay, g.lr_multiplier);
  if (clip_norm > 0) text += fmt::format(", clip norm {}", clip_norm);
  if (larc != ops::LarcMode::none)
    text += fmt::format(", larc {} {}", larc == ops::LarcMode::clip ? "clip" : "scale", larc_eta);
  return text;
}

}  // namespace keelson
