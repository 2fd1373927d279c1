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
  /// Number of the call, counted in the same order on all ranks. A wait for a peer is not a call of the group, and has
  /// the number of the last call before it.
  std::uint64_t number = 0;
  std::string_view label;
  bool for_first_rank = false;  ///< waits for rank 0, which may be writing a checkpoint
  int peer = -1;                ///< the other rank of a send or receive; -1: all ranks of the group take part
  int announcements = 0;
  int reports = 0;
  double polled = 0;   ///< seconds at the last poll
  double stopped = 0;  ///< seconds in which this process did not run: a batch system had suspended the job
};

/// The watchdog of one communicator. A late rank cannot be asked, so the waiting ranks inform each other: a rank that
/// has waited for some time sends the number of the call to a few collectors (the lowest ranks), and repeats this
/// message from time to time. A collector that also waits acknowledges the message. The watchdog assumes that a rank
/// without a recent message does not wait. The lowest waiting collector reports. If no collector waits, the ranks 4, 8,
/// 16 ... report, and ranks that wait for a peer. The watchdog costs nothing until a wait is long.
class StallDetector {
 public:
  /// `names` of all ranks, as Communicator::name().
  StallDetector(MPI_Comm comm, std::vector<std::string> names, WatchdogOptions watchdog);
  ~StallDetector();
  StallDetector(const StallDetector&) = delete;

  const WatchdogOptions& watchdog() const { return watchdog_; }
  /// Called repeatedly while waiting, `seconds` after the wait began.
  void poll(Wait& wait, double seconds);

 private:
  struct PendingSend {
    std::uint64_t number;  ///< the message
    MPI_Request request;
  };
  void look(Wait& wait, double seconds);
  void send(std::uint64_t number, int to, int tag);
  void announce(Wait& wait);
  void receive(const Wait* wait);
  void receive(const Wait* wait, int tag);
  bool waits(int rank) const;
  bool is_reporter(const Wait& wait) const;
  std::string late_ranks(const Wait& wait) const;  ///< for a report
  void report(const Wait& wait, double seconds, std::string_view end) const;

  MPI_Comm comm_;
  std::vector<std::string> names_;  ///< by rank
  WatchdogOptions watchdog_;
  int rank_ = 0, size_ = 1, collectors_ = 1;
  double announce_every_ = 0;  ///< interval of messages in seconds
  struct LastMessage {
    std::uint64_t number = 0;  ///< number of the call that the rank waits for; 0: no message has come
    std::chrono::steady_clock::time_point at{};
  };
  std::vector<LastMessage> last_messages_;  ///< by rank
  std::list<PendingSend> pending_sends_;
};

}  // namespace keelson::comm::detail
