#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"

/// The implementations of Communicator, and the start and end of MPI. This header needs no MPI header.
namespace keelson::comm {

/// The actions of a rank when a collective call takes long. After every `seconds` the lowest waiting rank reports the
/// label of the call, the current Activity, and the ranks that have not reached the call. The wait goes on until the
/// job is ended with exit code 1.
struct WatchdogOptions {
  double seconds = 300;  ///< KEELSON_WATCHDOG; 0: off
  /// Seconds of waiting after which the job is ended, in an Activity (training, evaluation); 0: never.
  double abort_seconds = 900;
  /// The same outside of an Activity, where one rank may have much to do while the others wait.
  double abort_elsewhere_seconds = 0;
  std::function<void(const std::string&)> report;  ///< empty: a line on stderr

  /// The defaults above, changed by the environment. KEELSON_WATCHDOG_ABORT sets abort_seconds and
  /// abort_elsewhere_seconds; without this variable abort_seconds is three times `seconds`. Throws InputError if a
  /// variable is not a number of seconds.
  static WatchdogOptions from_environment();
};

/// One rank; makes no MPI calls.
std::unique_ptr<Communicator> make_self();

/// All ranks of the job, on a duplicate of MPI_COMM_WORLD, so that messages never mix with those of the host program.
/// Without MPI, or with one rank, the same as make_self(). Collective. Destroy the result before MPI is finalised.
std::unique_ptr<Communicator> make_world(const WatchdogOptions& watchdog = WatchdogOptions::from_environment());

/// The ranks of a host program's communicator, which is duplicated. The argument is the communicator's Fortran handle:
/// make_from_handle(MPI_Comm_c2f(comm)). Collective.
std::unique_ptr<Communicator> make_from_handle(int fortran_handle,
                                               const WatchdogOptions& watchdog = WatchdogOptions::from_environment());

/// The time of an algorithm that sums an array over ranks.
struct AllreduceTime {
  std::string algorithm;  ///< the name as in KEELSON_ALLREDUCE: "two-level", "ring:1M"; or "MPI_Allreduce"
  double seconds = 0;     ///< median over some runs of the slowest rank's time
  bool blocking = false;  ///< MPI's blocking call, for comparison; never chosen, since no work can overlap with it
};

/// Times the allreduce of so many bytes of f32 in host memory by all algorithms that Communicator::make_allreduce
/// chooses from. Empty for a group of one rank. Collective.
std::vector<AllreduceTime> time_allreduces(Communicator& group, std::size_t bytes, Wire wire = Wire::fp32);

/// The algorithm that Communicator::make_allreduce takes for so many bytes of f32 in host memory, by name; empty for a
/// group of one rank. Collective.
std::string allreduce_algorithm(Communicator& group, std::size_t bytes, Wire wire = Wire::fp32);

/// The size of gradient buckets that suits this group: the smallest power of two of bytes, from 1 to 16 MiB, with which
/// sums move nearly as many bytes per second as with the best size. 8 MiB if nothing is timed. The same on all ranks.
/// Collective.
std::size_t choose_bucket_bytes(Communicator& group, Wire wire = Wire::fp32);

/// The result of the work of one rank.
struct Outcome {
  int exit_code = 0;    ///< of the rank
  std::string message;  ///< empty if all went well
  int rank = 0;         ///< its number when the job began; set by MpiSession::conclude()
};

/// Starts MPI if this process belongs to a job of several processes and the host program has not started MPI. The
/// destructor ends MPI if this object started it.
///
/// A process without a launcher makes no MPI call. It starts at once, even if MPI does not work (a sandbox without
/// network, a login node). The environment shows whether there is a launcher (launched()). KEELSON_MPI=on or off
/// overrides this.
class MpiSession {
 public:
  /// Throws Error if MPI does not start, InputError if a launcher started several tasks and MPI sees each of them as a
  /// job of one rank (as with `srun` without --mpi=pmix).
  /// A rank that fails waits `grace_seconds` for the others (KEELSON_GRACE of the programs).
  explicit MpiSession(double grace_seconds = 2);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  bool active() const;  ///< MPI is initialised, by us or by the host program

  /// Every rank calls this once, when its work has ended, with or without an error. Returns the outcomes of all ranks
  /// that are alive, in rank order, when all of them have called it. A rank that failed waits only for the grace time
  /// and then gets nothing: the other ranks are still at work and would wait for this rank for ever. Then call abort().
  std::optional<std::vector<Outcome>> conclude(const Outcome& mine);

  /// Ends every rank of the job with this exit code, now. Ranks that wait for this rank get a message and end by
  /// themselves. A launcher alone may give them time for a checkpoint, which they cannot write.
  [[noreturn]] void abort(int exit_code);

  /// The environment variable that shows a launcher ("OMPI_COMM_WORLD_SIZE"); empty: there is no launcher.
  static std::string launched();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keelson::comm
