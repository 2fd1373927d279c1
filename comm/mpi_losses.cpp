#include <chrono>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "comm/detail/call_limit.hpp"
#include "comm/detail/job_end.hpp"
#include "comm/detail/mpi_collective.hpp"
#include "comm/detail/mpi_communicator.hpp"
#include "comm/detail/mpi_support.hpp"
#include "comm/detail/ulfm.hpp"
#include "engine/base/detail/backoff.hpp"
#include "engine/base/error.hpp"

/// How a group of ranks goes on without those that died.
namespace keelson::comm::detail {

bool MpiCommunicator::survives_losses() const { return ulfm::enabled(); }

void MpiCommunicator::revoke() {
  ulfm::revoke(comm_);
  while (!active_.empty()) active_.back()->abandon();
  for (MpiCommunicator* part : parts_) part->revoke();
}

bool MpiCommunicator::end_if_lost() {
  if (!survives_losses() || !mpi_running() || !ulfm::knows_of_loss(comm_)) return false;
  revoke();
  return true;
}

/// The agreement's flag and its error are alike on all ranks that are left. `pause`: called between two tests.
bool MpiCommunicator::agree(bool good, const std::function<void()>& pause) {
  if (!good) revoke();  // so that those who are still at work come
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
  if (!survives_losses()) return Communicator::agree(good);
  Backoff backoff;
  Wait wait{.number = ++calls_, .label = "the agreement that all ranks are alive"};
  return agree(good, [&] {
    if (const double seconds = backoff(); seconds >= Backoff::late) stall_detector_->poll(wait, seconds);
  });
}

bool MpiCommunicator::stand_by() {
  if (!survives_losses()) return Communicator::stand_by();
  ++calls_;
  return agree(true, [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    end_if_over("other ranks to end or to die", 0, true);
  });
}

LostRanks MpiCommunicator::shrink() {
  if (!survives_losses()) return Communicator::shrink();
  revoke();
  end_if_over("the other ranks", 0, true);  // a rank that has told of its failure is not to be done without
  std::optional<CallLimit> limit(std::in_place, "the making of a group of the ranks that are left",
                                 stall_detector_->watchdog().abort_seconds, watchdog_advice);
  MPI_Comm left = ulfm::shrink(comm_);
  limit.reset();
  MPI_Group before = MPI_GROUP_NULL, after = MPI_GROUP_NULL;
  MPI_Comm_group(comm_, &before);
  MPI_Comm_group(left, &after);
  std::vector<int> all(static_cast<std::size_t>(size_)), now(all.size());
  std::iota(all.begin(), all.end(), 0);
  MPI_Group_translate_ranks(before, size_, all.data(), after, now.data());
  MPI_Group_free(&before);
  MPI_Group_free(&after);
  LostRanks lost;
  std::vector<Member> members;
  std::vector<int> nodes;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (now[r] == MPI_UNDEFINED) {
      lost.ranks.push_back(members_[r].number);
      lost.hosts.push_back(members_[r].host);
    } else {
      members.push_back(members_[r]);
      nodes.push_back(nodes_of_[r]);
    }
  }
  const Watchdog watchdog = stall_detector_->watchdog();
  stall_detector_.reset();
  MPI_Comm_free(&comm_);
  comm_ = left;
  ++generation_;
  calls_ = 1;
  polling_ = {};
  messages_ = {};
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
  nodes_of_ = std::move(nodes);
  count_nodes();
  members_ = std::move(members);
  stall_detector_ = std::make_unique<StallDetector>(comm_, names_of(members_), watchdog);
  return lost;
}

}  // namespace keelson::comm::detail
