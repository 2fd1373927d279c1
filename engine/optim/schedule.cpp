#include "engine/optim/schedule.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "engine/base/error.hpp"

namespace keelson {

double Schedule::at(double epoch) const {
  if (epoch < warmup_epochs) return warmup_from + (base - warmup_from) * epoch / warmup_epochs;
  const double done = std::clamp(epoch / epochs, 0.0, 1.0);
  switch (kind) {
    case Kind::constant:
      return base;
    case Kind::linear:
      return base + (final - base) * done;
    case Kind::cosine:
      return final + (base - final) * 0.5 * (1 + std::cos(std::numbers::pi * done));
    case Kind::decay:
      return base * std::pow(decay_factor, std::max(std::floor(epoch) + 1 - static_cast<double>(flat_epochs), 0.0));
    case Kind::steps:
      break;
  }
  double factor = 1;
  for (const Step& s : steps)
    if (epoch >= s.epoch) factor = s.factor;
  return base * factor;
}

std::string Schedule::to_string() const {
  std::string text = fmt::format("{}", base);
  if (kind == Kind::linear || kind == Kind::cosine)
    text += fmt::format(" -> {} {} over {} epoch{}", final, kind == Kind::linear ? "linear" : "cosine", epochs,
                        epochs == 1 ? "" : "s");
  if (kind == Kind::decay) text += fmt::format(", x {} in each epoch after the first {}", decay_factor, flat_epochs);
  for (const Step& s : steps) text += fmt::format(", x {} from epoch {}", s.factor, s.epoch);
  if (warmup_epochs > 0)
    text += fmt::format(", warm-up from {} over {} epoch{}", warmup_from, warmup_epochs, warmup_epochs == 1 ? "" : "s");
  return text;
}

std::vector<Schedule::Step> parse_steps(const std::string& text) {
  std::vector<Schedule::Step> steps;
  const char *at = text.data(), *const end = at + text.size();
  while (at != end) {
    Schedule::Step s{};
    auto r = std::from_chars(at, end, s.epoch);
    const bool colon = r.ec == std::errc() && r.ptr != end && *r.ptr == ':';
    if (colon) r = std::from_chars(r.ptr + 1, end, s.factor);
    const bool ends = r.ptr == end || (*r.ptr == ',' && r.ptr + 1 != end);
    const bool usable = std::isfinite(s.epoch) && std::isfinite(s.factor) && s.epoch >= 0 && s.factor >= 0;
    if (!colon || r.ec != std::errc() || !ends || !usable || (!steps.empty() && s.epoch <= steps.back().epoch))
      refuse(
          "'{}' is not a list of learning rate steps: expected EPOCH:FACTOR pairs in rising order, like "
          "32:0.25,64:0.125",
          text);
    steps.push_back(s);
    at = r.ptr == end ? end : r.ptr + 1;
  }
  return steps;
}

}  // namespace keelson
