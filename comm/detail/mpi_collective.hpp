#pragma once

#include <memory>

#include "comm/detail/collective_work.hpp"
#include "comm/detail/mpi_communicator.hpp"

namespace keelson::comm::detail {

/// A collective of an MpiCommunicator: its number among the calls of the group, and waits that the watchdog sees. The
/// work is done by a CollectiveWork.
class MpiCollective final : public Collective {
 public:
  MpiCollective(MpiCommunicator& owner, const CollectiveDesc& desc, std::unique_ptr<CollectiveWork> work);
  /// By the MPI library.
  MpiCollective(MpiCommunicator& owner, const CollectiveDesc& desc);
  ~MpiCollective() override;
  MpiCollective(const MpiCollective&) = delete;

  void start() override;
  bool test() override;
  void wait() override;
  /// Waits until MPI has let go of the arrays of a group that was revoked.
  void abandon();
  /// For a collective of all ranks by the MPI library, instead of start() and wait(): waits for all ranks, under the
  /// watchdog, and then does it by blocking calls, which no watchdog sees.
  void run_blocking();

 private:
  void finish();
  void end();

  MpiCommunicator& owner_;
  CollectiveDesc desc_;
  int message_;  ///< of a send or receive: the number that both have
  std::unique_ptr<CollectiveWork> work_;
  Wait wait_;
  int generation_;  ///< of the owner
  bool active_ = false;
};

}  // namespace keelson::comm::detail
