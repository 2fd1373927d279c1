#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicators.hpp"

namespace keelson::comm::detail {

/// One wait for one collective call, or for one peer.
struct Wait {
  /// Of the call, counted alike on all ranks. Waits for a peer, which other ranks know nothing of, count no call:
  /// theirs is the number of the last call before.
  std::uint64_t number = 0;
  std::string_view label;
  bool for_first_rank = false;  ///< which may be writing a checkpoint
  int peer = -1;                ///< of a send or receive: the other rank
  int announcements = 0;
  int reports = 0;
  double polled = 0;   ///< seconds after which the last poll came
  double stopped = 0;  ///< seconds in which this process did not run: a batch system had suspended the job
};

/// The watchdog of one communicator. A late rank cannot be asked, so those who wait tell each other: a rank that has
/// waited for a while sends the number of the call to the few collectors (the lowest ranks), now and then again, and a
/// collector that waits too acknowledges it. Who has not been heard of lately does not wait. The lowest waiting
/// collector speaks; where no collector waits, the ranks 4, 8, 16 ... do, and ranks that wait for a peer. Costs nothing
/// until a wait is long.
class StallDetector {
 public:
  /// `names` of all ranks, as Communicator::name().
  StallDetector(MPI_Comm comm, std::vector<std::string> names, Watchdog watchdog);
  ~StallDetector();
  StallDetector(const StallDetector&) = delete;

  const Watchdog& watchdog() const { return watchdog_; }
  /// Called over and over while waiting, `seconds` after the wait began.
  void poll(Wait& wait, double seconds);

 private:
  struct Note {
    std::uint64_t number;
    MPI_Request request;
  };
  void look(Wait& wait, double seconds);
  void send(std::uint64_t number, int to, int tag);
  void announce(Wait& wait);
  void listen(const Wait* wait);
  void hear(const Wait* wait, int tag);
  bool waits(int rank) const;
  bool is_reporter(const Wait& wait) const;
  std::string who(const Wait& wait) const;  ///< is late, for a report
  void report(const Wait& wait, double seconds, std::string_view end) const;

  MPI_Comm comm_;
  std::vector<std::string> names_;  ///< by rank
  Watchdog watchdog_;
  int rank_ = 0, size_ = 1, collectors_ = 1;
  double announce_every_ = 0;  ///< seconds
  struct Heard {
    std::uint64_t number = 0;  ///< of the call that the rank waits for
    std::chrono::steady_clock::time_point at{};
  };
  std::vector<Heard> heard_;  ///< by rank
  std::list<Note> notes_;     ///< on their way
};

}  // namespace keelson::comm::detail
