#pragma once

#include <memory>

#include "comm/mpi/progress_thread.hpp"
#include "engine/base/progress_engine.hpp"

namespace keelson::comm::detail {

class MpiCollective;
class MpiCommunicator;

/// The collectives of this process that are started and not known to have ended, of all groups, oldest first. Other
/// ranks wait for this rank's part of each of them. So all of them advance whenever this rank waits for something.
class ActiveCollectives {
 public:
  static void reserve(int more);  ///< makes room for so many more, or, with a negative number, for fewer
  static void add(MpiCollective& collective);
  static void remove(MpiCollective& collective);
  static bool empty();
  static void advance();      ///< lets those advance that CollectiveWork::needs_driving()
  static void test_oldest();  ///< MPI's progress is that of the process: a test of one lets all of MPI's own advance
  /// Ends those of a group that was revoked.
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
