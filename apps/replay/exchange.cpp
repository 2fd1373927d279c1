#include <mpi.h>

#include <simgrid/s4u.hpp>

#include "apps/bench/scale/rounds.hpp"
#include "apps/replay/processes.hpp"

namespace keelson::replay {
namespace {

class Exchange {
 public:
  Exchange(Replay& replay, int rank)
      : replay_(replay), job_(replay.job), rank_(rank), first_(rank / job_.stage_ranks() * job_.stage_ranks()) {}

  /// A sum over the ranks of the stage.
  void sum_up(std::size_t bytes) {
    if (job_.stage_ranks() == 1) return;
    if (job_.exchange.copies) work(job_.machine.gradient_copies * passes(bytes));
    for (const auto& round : bench::make_rounds(job_.exchange.algorithm, rank_ - first_, job_.stage_ranks(),
                                                job_.machine.ranks_per_node, bytes))
      run(round);
  }

 private:
  /// One round, as in comm/allreduce/peer_exchange.cpp.
  void run(const bench::Round& r) {
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    const bool compress = job_.exchange.compress;
    if (r.from >= 0)
      MPI_Irecv(no_payload, on_wire(r.received), MPI_BYTE, first_ + r.from, 0, MPI_COMM_WORLD, &requests[0]);
    if (r.to >= 0) {
      if (compress) work(passes(r.sent));
      MPI_Isend(no_payload, on_wire(r.sent), MPI_BYTE, first_ + r.to, 0, MPI_COMM_WORLD, &requests[1]);
      replay_.wire_bytes += on_wire(r.sent);
      replay_.messages += 1;
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    const int messages = (r.to >= 0) + (r.from >= 0);
    const double received = r.add ? passes(r.received) : compress ? passes(r.received) / 2 : 0;
    work(messages * job_.machine.message_overhead + received);
  }

  int on_wire(std::size_t bytes) const { return static_cast<int>(job_.exchange.compress ? bytes / 2 : bytes); }
  /// Seconds to add up `bytes`, or for another pass over about as much memory.
  double passes(std::size_t bytes) const { return static_cast<double>(bytes) / job_.machine.sum_bandwidth; }

  /// Uses the core for the exchange.
  void work(double seconds) {
    if (seconds <= 0) return;
    if (!job_.machine.spare_core && replay_.computing[rank_]) replay_.owed[rank_] += seconds;
    simgrid::s4u::this_actor::sleep_for(seconds);
  }

  Replay& replay_;
  const bench::ReplayJob& job_;
  int rank_, first_;  // first_: of the stage
};

}  // namespace

void run_exchange(Replay& replay, int rank) {
  Exchange exchange(replay, rank);
  const auto& sizes = replay.job.program_of(rank).buckets;
  const int own = replay.job.ranks + rank, buckets = static_cast<int>(sizes.size());
  std::vector<MPI_Request> done(sizes.size(), MPI_REQUEST_NULL);
  for (int step = 0; step < replay.job.steps; ++step) {
    for (int bucket = 0; bucket < buckets; ++bucket) {
      MPI_Recv(nullptr, 0, MPI_BYTE, own, bucket, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      exchange.sum_up(sizes[bucket]);
      MPI_Isend(nullptr, 0, MPI_BYTE, own, bucket, MPI_COMM_WORLD, &done[bucket]);
    }
    MPI_Waitall(buckets, done.data(), MPI_STATUSES_IGNORE);
  }
}

}  // namespace keelson::replay
