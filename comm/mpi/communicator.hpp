#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/allreduce/chooser.hpp"
#include "comm/communicators.hpp"
#include "comm/local/message_numbers.hpp"
#include "comm/mpi/progress.hpp"
#include "comm/mpi/support.hpp"
#include "comm/watch/stall_detector.hpp"

namespace keelson::comm::detail {

class MpiCollective;

/// A communicator over MPI 3.1. Every collective call, even a blocking call, is a non-blocking MPI call and a wait that
/// the watchdog watches. MPI is called from one thread at a time (MPI_THREAD_FUNNELED is enough).
class MpiCommunicator final : public Communicator, private Watchdog, private FaultTolerance {
 public:
  /// Takes ownership of `comm`, which must not be used otherwise. `number`: RankInfo::number; negative: the rank in
  /// `comm`. `progress`: of the group that this group is a part of; null: this group is not a part. Collective.
  MpiCommunicator(MPI_Comm comm, const WatchdogOptions& watchdog, int number, std::shared_ptr<MpiProgress> progress);
  ~MpiCommunicator() override;

  const RankInfo& info() const override { return info_; }
  std::unique_ptr<Communicator> split(int color, int key) override;

  void barrier() override;
  void broadcast(void* data, std::size_t bytes, int root) override;
  void reduce(void* data, Number type, std::size_t count, Reduction op) override;
  std::vector<std::string> allgather(const std::string& text) override;
  std::vector<float> gather(const std::vector<float>& mine, int root) override;

  std::string transport() const override { return "MPI"; }
  ProgressEngine& progress() override { return *progress_; }
  Watchdog& watchdog() override { return *this; }
  FaultTolerance* fault_tolerance() override;

  /// The chooser of this group. The first call waits for all ranks. Collective.
  AllreduceChooser& chooser();

 private:
  friend class MpiCollective;

  void poll(std::string_view waiting_for, double seconds) override;
  bool agree(bool good) override;
  bool wait_as_spare() override;
  LostRanks shrink() override;
  std::unique_ptr<Collective> implement(const CollectiveDesc& desc) override;
  void find_nodes();
  void count_nodes();  ///< fills info_ from nodes_of_
  /// Ends all calls of this group and its parts, on all ranks, and waits for the end of this rank's calls.
  void revoke();
  /// For collectives that an exception has left unfinished: ends them if a rank has died. Returns whether a rank has
  /// died.
  bool end_if_lost();
  bool agree(bool good, const std::function<void()>& pause);
  struct Parts {  ///< elements of each rank in a gathering; MPI 3.1 counts in int
    std::vector<int> count, begin;
    std::size_t total = 0;
  };
  Parts parts(std::size_t mine, std::string_view label);
  int message_number(const CollectiveDesc& desc);  ///< throws Error if MPI has no more tags
  /// Waits for all requests, in order.
  void complete(std::span<MPI_Request> requests, Wait wait);
  void complete(MPI_Request request, std::string_view label);

  MPI_Comm comm_;
  MpiCommunicator* parent_ = nullptr;    ///< the group that split() was called on
  std::vector<MpiCommunicator*> parts_;  ///< the groups that split() has made
  std::vector<Member> members_;          ///< by rank
  int generation_ = 0;                   ///< how often the group has shrunk
  std::vector<int> nodes_of_;            ///< by rank
  RankInfo info_;
  std::unique_ptr<StallDetector> stall_detector_;
  Wait polled_;              ///< the wait that poll() was last called for
  double polled_at_ = 0;     ///< the seconds of that call
  std::uint64_t calls_ = 1;  ///< calls of the whole group that have begun; the making of this object counts, too
  MessageNumbers messages_;
  std::unique_ptr<Allreduces> allreduces_;     ///< null until the first allreduce of floats is made
  std::unique_ptr<AllreduceChooser> chooser_;  ///< with allreduces_
  std::shared_ptr<MpiProgress> progress_;      ///< shared with the parts
};

/// `comm` as a Communicator. For one rank, makes a group that does not use MPI, and frees `comm`. The other arguments
/// are those of MpiCommunicator().
std::unique_ptr<Communicator> adopt(MPI_Comm comm, const WatchdogOptions& watchdog, int number = -1,
                                    std::shared_ptr<MpiProgress> progress = nullptr);

}  // namespace keelson::comm::detail
