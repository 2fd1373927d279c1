#pragma once

#include <memory>

#include "comm/mpi/collective_work.hpp"
#include "comm/mpi/communicator.hpp"

namespace keelson::comm::detail {

/// A collective of an MpiCommunicator. It has a number among the calls of the group, and the watchdog watches its
/// waits. A CollectiveWork does the work.
class MpiCollective final : public Collective {
 public:
  MpiCollective(MpiCommunicator& owner, const CollectiveDesc& desc, std::unique_ptr<CollectiveWork> work);
  /// A collective by the MPI library.
  MpiCollective(MpiCommunicator& owner, const CollectiveDesc& desc);
  ~MpiCollective() override;
  MpiCollective(const MpiCollective&) = delete;

  void start() override;
  bool test() override;
  void wait() override;
  const MpiCommunicator& owner() const { return owner_; }
  /// Advances a started collective that does not advance by itself.
  void drive() {
    if (needs_driving_) work_->advance();
  }
  /// Waits until MPI no longer uses the arrays, after the group was revoked.
  void abandon();
  /// Replaces start() and wait() for a collective of all ranks by the MPI library: waits for all ranks, under the
  /// watchdog, and then makes MPI's blocking calls, which the watchdog does not watch.
  void run_blocking();

 private:
  void finish();
  void end();

  MpiCommunicator& owner_;
  CollectiveDesc desc_;
  int message_;  ///< for a send or receive: the number that the send and the receive have in common
  std::unique_ptr<CollectiveWork> work_;
  bool needs_driving_;
  Wait wait_;
  int generation_;  ///< generation of the owner
  bool active_ = false;
};

}  // namespace keelson::comm::detail
