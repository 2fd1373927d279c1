#include "engine/train/sync/sync_mode.hpp"

#include <optional>

#include <fmt/format.h>

#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"

namespace keelson {
namespace {

/// A whole number of at least `least`, and nothing else.
std::optional<std::int64_t> whole_number(const std::string& text, std::int64_t least) {
  const auto value = parse_number<std::int64_t>(text);
  return value && *value >= least ? value : std::nullopt;
}

}  // namespace

SyncMode SyncMode::parse(const std::string& text) {
  SyncMode m;
  const auto colon = text.find(':');
  const std::string name = text.substr(0, colon), rest = colon == text.npos ? "" : text.substr(colon + 1);
  if (text == "synchronous") return m;
  if (text == "lag") return {.kind = Kind::lag};
  if (text == "gossip") return {.kind = Kind::gossip};
  if (name == "stale")
    if (const auto bound = whole_number(rest, 0)) return {.kind = Kind::stale, .bound = *bound};
  if (name == "local")
    if (const auto period = whole_number(rest, 1)) return {.kind = Kind::local, .period = *period};
  if (name == "post-local") {
    const auto at = rest.find('@');
    const auto period = whole_number(rest.substr(0, at), 1);
    const auto epochs = at == rest.npos ? std::nullopt : whole_number(rest.substr(at + 1), 0);
    if (period && epochs) return {.kind = Kind::post_local, .period = *period, .epochs = *epochs};
  }
  refuse(
      "the synchronization '{}' is none: expected synchronous, lag, stale:STEPS (0 or more), gossip, local:STEPS (1 or "
      "more) or post-local:STEPS@EPOCHS, e.g. stale:4, local:8, post-local:8@30",
      text);
}

std::string SyncMode::to_string() const {
  switch (kind) {
    case Kind::synchronous:
      break;
    case Kind::lag:
      return "lag";
    case Kind::stale:
      return fmt::format("stale:{}", bound);
    case Kind::gossip:
      return "gossip";
    case Kind::local:
      return fmt::format("local:{}", period);
    case Kind::post_local:
      return fmt::format("post-local:{}@{}", period, epochs);
  }
  return "synchronous";
}

}  // namespace keelson
