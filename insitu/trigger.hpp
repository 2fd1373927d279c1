#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "insitu/keelson/insitu.h"

namespace keelson::insitu {

/// Turns on at a score of at least `on`, and off at a score below `off`. Counts calls between snapshots.
class Hysteresis {
 public:
  /// `every` 0: act() returns true only in the call that turns on.
  Hysteresis(double on, double off, std::int64_t every) : on_at_(on), off_below_(off), every_(every) {}

  /// Takes the next score. Whether a snapshot must be written now.
  bool act(double score) {
    const bool was_on = on_;
    on_ = on_ ? score >= off_below_ : score >= on_at_;
    calls_ = on_ && was_on ? calls_ + 1 : 0;
    return on_ && (!was_on || (every_ > 0 && calls_ % every_ == 0));
  }
  bool on() const { return on_; }

 private:
  double on_at_, off_below_;
  std::int64_t every_, calls_ = 0;  ///< calls since it turned on
  bool on_ = false;
};

/// The model that a trigger watches, and the fields that it writes.
struct Trigger {
  std::string name, model, path;
  std::vector<std::string> fields;
  Hysteresis state;
};

/// Checks the host's description. Throws InputError.
Trigger make_trigger(const keelson_insitu_trigger_desc& desc);

/// The words of a text, separated by spaces.
std::vector<std::string> words(const char* text);

}  // namespace keelson::insitu
