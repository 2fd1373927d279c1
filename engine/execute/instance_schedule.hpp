#pragma once

#include <cstddef>
#include <vector>

#include "engine/plan/program.hpp"

namespace keelson {

/// How two execution instances share a run of calls: one of them runs the calls that overlap others (Call::overlaps),
/// the other one all others, each in the order of the program. A call waits for a call of the other instance if one of
/// them writes memory that the other one uses, whether they pass a value or have their memory in turn.
class InstanceSchedule {
 public:
  /// Of one call.
  struct Entry {
    bool overlaps = false;    ///< on the second instance
    int waits_for = -1;       ///< the last call of the other instance that must have ended; -1: none, or known already
    bool is_awaited = false;  ///< another call waits for this one
  };

  /// For the calls [first, last), all computations, after Program::place().
  InstanceSchedule(const Program& program, std::size_t first, std::size_t last);
  /// Of call number `i` of the program.
  const Entry& operator[](std::size_t i) const { return entries_[i - first_]; }
  /// Whether there are calls for both instances.
  bool has_two() const { return has_two_; }

 private:
  std::size_t first_;
  std::vector<Entry> entries_;
  bool has_two_ = false;
};

}  // namespace keelson
