#pragma once

#include <memory>

#include "comm/mpi/progress_thread.hpp"
#include "engine/base/progress_engine.hpp"

namespace keelson::comm::detail {

class MpiCollective;
class MpiCommunicator;

/// The collectives of this process that are started and not known to have ended, of all groups, oldest first. Other
/// ranks wait for this rank's part of each collective. So all collectives advance whenever this rank waits.
class ActiveCollectives {
 public:
  static void reserve(int more);  ///< reserves memory for so many more collectives; negative: for fewer
  static void add(MpiCollective& collective);
  static void remove(MpiCollective& collective);
  static bool empty();
  static void advance();  ///< advances collectives with CollectiveWork::needs_driving()
  /// MPI's progress is per process: a test of one collective advances all of MPI's own collectives
  static void test_oldest();
  /// Ends the collectives of a group that was revoked.
  static void abandon(const MpiCommunicator& group);
};

/// Lets all collectives of this process over MPI advance (ActiveCollectives).
class MpiProgress final : public ProgressEngine {
 public:
  void advance() override;
  bool use_thread(bool wanted, const std::vector<int>& cpus) override;
  bool resume_thread() override;
  void pause_thread() override;

 private:
  std::unique_ptr<ProgressThread> thread_;
};

}  // namespace keelson::comm::detail
