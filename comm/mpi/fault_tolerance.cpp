#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "comm/mpi/communicator.hpp"
#include "comm/mpi/support.hpp"
#include "comm/mpi/ulfm.hpp"
#include "comm/watch/call_limit.hpp"
#include "comm/watch/job_end.hpp"
#include "engine/base/backoff.hpp"
#include "engine/base/error.hpp"

/// How a group of ranks goes on without the ranks that died.
namespace keelson::comm::detail {

FaultTolerance* MpiCommunicator::fault_tolerance() { return ulfm::enabled() ? this : nullptr; }

void MpiCommunicator::revoke() {
  ulfm::revoke(comm_);
  ActiveCollectives::abandon(*this);
  for (MpiCommunicator* part : parts_) part->revoke();
}

bool MpiCommunicator::end_if_lost() {
  if (!survives_losses() || !mpi_running() || !ulfm::knows_of_loss(comm_)) return false;
  revoke();
  return true;
}

/// The flag and the error of the agreement are the same on all ranks that are left. `pause`: called between two tests.
bool MpiCommunicator::agree(bool good, const std::function<void()>& pause) {
  if (!good) revoke();  // so that ranks that are still at work come here
  int flag = good && !ulfm::knows_of_loss(comm_) ? 1 : 0;
  MPI_Request request = MPI_REQUEST_NULL;
  bool alive = !ulfm::is_loss(ulfm::start_agreement(comm_, &flag, &request));
  for (int done = 0; alive && !done;) {
    const int result = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    alive = !ulfm::is_loss(result);
    if (alive) check(result, "MPIX_Comm_iagree");
    if (alive && !done) pause();
  }
  if (alive && flag != 0) return true;
  revoke();
  return false;
}

bool MpiCommunicator::agree(bool good) {
  Backoff backoff;
  Wait wait{.number = ++calls_, .label = "the agreement that all ranks are alive"};
  return agree(good, [&] {
    if (const double seconds = backoff(); seconds >= Backoff::late) stall_detector_->poll(wait, seconds);
  });
}

bool MpiCommunicator::wait_as_spare() {
  ++calls_;
  return agree(true, [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    end_if_over("other ranks to end or to die", 0, true);
  });
}

LostRanks MpiCommunicator::shrink() {
  revoke();
  end_if_over("the other ranks", 0, true);  // a rank that has announced its failure ends the job
  std::optional<CallLimit> limit(std::in_place, "making a group of the ranks that are left",
                                 stall_detector_->watchdog().abort_seconds, watchdog_advice);
  MPI_Comm left = ulfm::shrink(comm_);
  limit.reset();
  const auto now = translate_ranks(comm_, left);
  LostRanks lost;
  std::vector<Member> members;
  std::vector<int> nodes;
  for (std::size_t r = 0; r < now.size(); ++r) {
    if (now[r] == MPI_UNDEFINED) {
      lost.ranks.push_back(members_[r].number);
      lost.hosts.push_back(members_[r].host);
    } else {
      members.push_back(members_[r]);
      nodes.push_back(nodes_of_[r]);
    }
  }
  const WatchdogOptions watchdog = stall_detector_->watchdog();
  stall_detector_.reset();
  MPI_Comm_free(&comm_);
  comm_ = left;
  ++generation_;
  calls_ = 1;
  polled_ = {};
  messages_ = {};
  MPI_Comm_rank(comm_, &info_.rank);
  MPI_Comm_size(comm_, &info_.size);
  nodes_of_ = std::move(nodes);
  count_nodes();
  members_ = std::move(members);
  stall_detector_ = std::make_unique<StallDetector>(comm_, names_of(members_), watchdog);
  return lost;
}

}  // namespace keelson::comm::detail
