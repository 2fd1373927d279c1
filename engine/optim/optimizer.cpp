#include "engine/optim/optimizer.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <type_traits>

#include "engine/base/parse_number.hpp"
#include "engine/base/printable.hpp"
#include "engine/optim/muon.hpp"
#include "engine/plan/update_builder.hpp"

namespace keelson {

namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

/// The words of a setting that is one of some, in the order of the values.
constexpr std::string_view larc_words[] = {"none", "scale", "clip"};
std::span<const std::string_view> words_of(const ops::LarcMode*) { return larc_words; }
constexpr std::string_view graft_words[] = {"none", "sgd", "adagrad", "adam"};
std::span<const std::string_view> words_of(const ops::Graft*) { return graft_words; }
std::span<const std::string_view> words_of(const AdjustRate*) { return adjust_rate_words; }

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view name) {
  if (pattern == "*") return true;
  if (pattern.starts_with('*')) return name.ends_with(pattern.substr(1));
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return name == pattern;
}

std::string OptimizerSetting::text() const {
  return std::visit(Overloaded{[](const auto* v) { return fmt::format("{}", *v); },
                               [](const bool* v) { return std::string(*v ? "true" : "false"); },
                               []<class E>(const E* v)
                                 requires std::is_enum_v<E>
                               { return std::string(words_of(v)[static_cast<std::size_t>(*v)]); }},
                               value);
}

void OptimizerSetting::read(const std::string& text) const {
  const auto refuse_value = [&](const std::string& expected) {
    refuse("the setting {} of an optimizer is '{}'; expected {}", name, printable(text), expected);
  };
  std::visit(Overloaded{
      [&](float* v) {
        const auto number = parse_number<float>(text);
        if (!number) refuse_value("a number, e.g. 0.9");
        *v = *number;
      },
      [&](std::int32_t* v) {
        const auto number = parse_number<std::int32_t>(text);
        if (!number) refuse_value("a whole number, e.g. 5");
        *v = *number;
      },
      [&](std::string* v) { *v = text; },
      [&](bool* v) {
        if (text != "true" && text != "false") refuse_value("true or false");
        *v = text == "true";
      },
      [&]<class E>(E* v)
        requires std::is_enum_v<E>
      {
        const auto words = words_of(v);
        const auto found = std::ranges::find(words, text);
        if (found == words.end())
          refuse_value(fmt::format("one of {} and {}", fmt::join(words.first(words.size() - 1), ", "), words.back()));
        *v = static_cast<E>(found - words.begin());
      }},
      value);
}

std::vector<OptimizerSetting> Optimizer::settings() {
  std::vector<OptimizerSetting> all{{"weight_decay", &weight_decay}, {"clip_norm", &clip_norm}};
  for (const OptimizerSetting& s : own_settings()) all.push_back(s);
  return all;
}

const ParameterGroup* Optimizer::find_group(const std::string& parameter) const {
  for (const ParameterGroup& g : groups)
    for (const std::string& pattern : g.patterns)
      if (matches_pattern(pattern, parameter)) return &g;
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

void UpdateOptimizer::append_updates(UpdateBuilder& b) const {
  const BufferId global_norm = clip_norm > 0 ? b.global_norm() : no_buffer;
  for (const UpdatedParameter& p : b.parameters()) {
    const BufferId norms = needs_norms(p.shape) ? b.sums_of_squares(p, {p.value, p.gradient}) : no_buffer;
    b.update(p, update_for(p.name, p.shape), global_norm, norms);
  }
}

ops::UpdateParams UpdateOptimizer::update_of_kind(ops::UpdateKind kind, const std::string& parameter,
                                                  bool decays) const {
  const ParameterGroup group = group_of(parameter, decays);
  ops::UpdateParams p;
  p.kind = kind;
  p.weight_decay = group.weight_decay;
  p.lr_multiplier = group.lr_multiplier;
  p.clip_norm = clip_norm;
  return p;
}

}  // namespace keelson
