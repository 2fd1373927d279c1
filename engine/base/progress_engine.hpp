#pragma once

#include <vector>

namespace keelson {

/// Lets the started collectives of a group of ranks advance while the rank computes. Groups made by
/// Communicator::split() share the progress engine of the group that they are parts of. By default nothing advances.
class ProgressEngine {
 public:
  virtual ~ProgressEngine() = default;
  /// Lets started collectives advance. Cheap when there are none. Called between the calls of a step.
  virtual void advance() {}
  /// Makes a thread that calls advance() between resume_thread() and pause_thread(), or with `wanted` false ends the
  /// thread. `cpus`: the CPUs of the thread; empty: those of this thread. Returns false if no thread is possible: MPI
  /// does not allow calls from another thread (MPI_THREAD_SERIALIZED), ranks may be lost, or there is only one rank.
  virtual bool use_thread(bool wanted, const std::vector<int>& cpus) { return (void)wanted, (void)cpus, false; }
  /// Lets the thread work until pause_thread(). In between, make no other call of any group. Returns false if nothing
  /// must advance or there is no thread: then call advance() from time to time.
  virtual bool resume_thread() { return false; }
  /// Pauses the thread. Throws the exception that advance() has thrown in the thread.
  virtual void pause_thread() {}
};

}  // namespace keelson
