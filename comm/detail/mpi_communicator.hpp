#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/allreduce/detail/chooser.hpp"
#include "comm/communicators.hpp"
#include "comm/detail/message_numbers.hpp"
#include "comm/detail/mpi_support.hpp"
#include "comm/detail/progress_thread.hpp"
#include "comm/detail/stall_detector.hpp"

namespace keelson::comm::detail {

class MpiCollective;

/// A communicator over MPI 3.1. Every collective call, also a blocking one, is a non-blocking MPI call and a wait that
/// the watchdog sees. MPI is called from one thread at a time (MPI_THREAD_FUNNELED is enough).
class MpiCommunicator final : public Communicator {
 public:
  /// Takes `comm` over: nobody else may use it. `number`: of this process; negative: its rank in `comm`. Collective.
  MpiCommunicator(MPI_Comm comm, const Watchdog& watchdog, int number);
  ~MpiCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }
  int node() const override { return node_; }
  int nodes() const override { return nodes_; }
  std::string host() const override { return members_[static_cast<std::size_t>(rank_)].host; }
  int number() const override { return members_[static_cast<std::size_t>(rank_)].number; }
  std::unique_ptr<Communicator> split(int color, int key) override;

  void barrier() override;
  void broadcast(void* data, std::size_t bytes, int root) override;
  void allreduce(double* data, std::size_t count, Reduction op) override;
  void allreduce(std::int64_t* data, std::size_t count, Reduction op) override;
  void allreduce(float* data, std::size_t count, Reduction op) override;
  std::vector<std::string> allgather(const std::string& text) override;
  std::vector<float> gather(const std::vector<float>& mine, int root) override;

  void progress() override;
  bool use_progress_thread(bool wanted, const std::vector<int>& cpus) override;
  bool lend() override;
  void reclaim() override;
  void poll(std::string_view waiting_for, double seconds) override;
  std::string collectives() const override { return "MPI"; }
  bool survives_losses() const override;
  bool agree(bool good) override;
  bool stand_by() override;
  LostRanks shrink() override;
  [[noreturn]] void abort(int exit_code) override;

  /// Of this group. Waits for all ranks when first called. Collective.
  AllreduceChooser& chooser();

 private:
  friend class MpiCollective;

  std::unique_ptr<Collective> implement(const CollectiveDesc& desc) override;
  void find_nodes();
  void count_nodes();  ///< from nodes_of_
  /// Ends all calls of this group and its parts, on all ranks, and waits for the end of those of this rank.
  void revoke();
  /// Of an exception that leaves collectives under way: where a rank has died, ends them. False: none has.
  bool end_if_lost();
  bool agree(bool good, const std::function<void()>& pause);
  void allreduce(void* data, std::size_t count, MPI_Datatype type, Reduction op);
  std::vector<std::int64_t> lengths(std::int64_t mine, std::string_view label);
  int message_number(const CollectiveDesc& desc);  ///< throws Error when MPI has no tag for another one
  /// Waits for all requests, in order.
  void complete(std::span<MPI_Request> requests, Wait wait);
  void complete(MPI_Request request, std::string_view label);

  MPI_Comm comm_;
  MpiCommunicator* parent_ = nullptr;    ///< that split() was called on
  std::vector<MpiCommunicator*> parts_;  ///< that split() has made
  std::vector<Member> members_;          ///< by rank
  int generation_ = 0;                   ///< how often it has shrunk
  std::vector<int> nodes_of_;            ///< by rank
  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1, node_ = 0, nodes_ = 1;
  std::unique_ptr<StallDetector> stall_detector_;
  Wait polling_;                        ///< what poll() was last called for
  double polled_ = 0;                   ///< seconds, then
  std::uint64_t calls_ = 1;             ///< of the whole group, begun; the making of this included
  std::vector<MpiCollective*> active_;  ///< started and not known to be done, oldest first
  MessageNumbers messages_;
  std::unique_ptr<Allreduces> allreduces_;     ///< null until the first allreduce of floats is made
  std::unique_ptr<AllreduceChooser> chooser_;  ///< with allreduces_
  std::size_t made_ = 0;                       ///< collectives alive: active_ has room for them all
  std::unique_ptr<ProgressThread> progress_thread_;
};

/// `comm` as a Communicator: without MPI if it has one rank (it is freed then). `number` as in MpiCommunicator().
std::unique_ptr<Communicator> adopt(MPI_Comm comm, const Watchdog& watchdog, int number = -1);

}  // namespace keelson::comm::detail
