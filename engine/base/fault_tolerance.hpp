#pragma once

#include <string>
#include <vector>

namespace keelson {

/// The ranks that FaultTolerance::shrink() has left out.
struct LostRanks {
  std::vector<int> ranks;          ///< RankInfo::number of each, ascending
  std::vector<std::string> hosts;  ///< of each of them
};

/// How a group of ranks goes on when some of its ranks have died. Calls of such a group throw RanksLost, on some ranks
/// or on all; agree() then gives all ranks that are left the same answer.
class FaultTolerance {
 public:
  virtual ~FaultTolerance() = default;
  /// Whether all ranks of the group are alive and have passed `good`: the same answer on all ranks that are left.
  /// Returns when each rank has called agree() or has died. After the answer false the group and its parts are broken:
  /// collectives that were started can be destroyed, and all calls but agree() and shrink() throw RanksLost.
  virtual bool agree(bool good) = 0;
  /// Like agree(true), for a spare rank, which has nothing to do until the others call agree(). The watchdog does not
  /// watch this wait, and the wait leaves the core to other threads.
  virtual bool wait_as_spare() = 0;
  /// Changes this object into a group of the ranks that are left, in their old order. Returns the ranks that are left
  /// out. All ranks that are left call shrink() after agree() has returned false. Destroy collectives on a device's
  /// memory before the call. All collectives and parts (Communicator::split) of the group must be made again. Throws
  /// RanksLost if more ranks die during the call: then call agree(false) and shrink() again.
  virtual LostRanks shrink() = 0;
};

}  // namespace keelson
