#pragma once

#include <cstdint>
#include <string>

namespace keelson {

/// How the parameters of the ranks are kept together. docs/relaxed-modes.md has the rule of each mode and its source.
struct SyncMode {
  /// The rule.
  enum class Kind : std::uint8_t {
    synchronous,  ///< every update is made of the gradients of all ranks
    lag,          ///< every update is made of the gradients of all ranks in the step before
    stale,        ///< a rank's updates reach the other ranks at most `bound` steps later
    gossip,       ///< after each step a rank averages its parameters with those of one other rank
    local,        ///< ranks average their parameters every `period` steps
    post_local,   ///< synchronous for `epochs` epochs, then as local
  };
  Kind kind = Kind::synchronous;  ///< synchronous by default
  std::int64_t bound = 0;         ///< of stale: steps, 0 or more
  std::int64_t period = 1;        ///< of local and post_local: steps, 1 or more
  std::int64_t epochs = 0;        ///< of post_local: 0 or more

  /// From "synchronous", "lag", "stale:4", "gossip", "local:8", or "post-local:8@30" (steps, epochs). Throws InputError
  /// for another text.
  static SyncMode parse(const std::string& text);
  /// The text that parse() reads.
  std::string to_string() const;
  /// Whether in the epoch after `done` epochs each rank's optimizer makes updates of the rank's own gradients alone.
  bool updates_locally(std::int64_t done) const {
    return kind == Kind::stale || kind == Kind::gossip || kind == Kind::local ||
           (kind == Kind::post_local && done >= epochs);
  }
  bool operator==(const SyncMode&) const = default;
};

}  // namespace keelson
