#include <mpi.h>

#include <random>
#include <simgrid/s4u.hpp>

#include "apps/replay/processes.hpp"

namespace keelson::replay {
namespace {

using bench::RankEvent;
using simgrid::s4u::this_actor::sleep_for;

class Computation {
 public:
  Computation(Replay& replay, int rank)
      : replay_(replay),
        rank_(rank),
        program_(replay.job.program_of(rank)),
        random_(replay.job.seed * 1000003u + static_cast<unsigned>(rank)),
        seconds_(program_.computing()),
        posted_(program_.buckets.size(), MPI_REQUEST_NULL) {
    for (const std::size_t bytes : program_.buckets) bytes_ += static_cast<double>(bytes);
  }

  /// One step. Returns the seconds that the rank computes.
  double step() {
    factor_ = std::max(0.5, 1 + replay_.job.machine.imbalance * normal_(random_));
    messages_.clear();  // the events below may move requests: SMPI keeps handles, not their addresses
    for (const RankEvent& e : program_.events) run(e);
    const int buckets = static_cast<int>(program_.buckets.size());
    for (int b = 0; b < buckets && !replay_.job.exchange.overlap; ++b) post(b);
    if (buckets == 0) compute(program_.update * factor_);
    for (int b = 0; b < buckets; ++b) {
      MPI_Recv(nullptr, 0, MPI_BYTE, rank_, b, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      compute(program_.update * factor_ * static_cast<double>(program_.buckets[b]) / bytes_);
    }
    MPI_Waitall(buckets, posted_.data(), MPI_STATUSES_IGNORE);
    MPI_Waitall(static_cast<int>(messages_.size()), messages_.data(), MPI_STATUSES_IGNORE);
    return factor_ * seconds_;
  }

 private:
  void run(const RankEvent& e) {
    using enum RankEvent::Kind;
    const int process = replay_.job.ranks + rank_ + e.peer;  // that computes for the other rank
    const int bytes = static_cast<int>(e.bytes);
    switch (e.kind) {
      case compute:
        return this->compute(e.seconds * factor_);
      case busy:
        return sleep_for(e.seconds);
      case send:
        MPI_Isend(no_payload, bytes, MPI_BYTE, process, 0, MPI_COMM_WORLD, &messages_.emplace_back(MPI_REQUEST_NULL));
        replay_.wire_bytes += bytes;
        replay_.messages += 1;
        return;
      case receive:
        MPI_Irecv(no_payload, bytes, MPI_BYTE, process, 0, MPI_COMM_WORLD, &messages_.emplace_back(MPI_REQUEST_NULL));
        return;
      case wait:
        MPI_Wait(&messages_.at(static_cast<std::size_t>(e.index)), MPI_STATUS_IGNORE);
        return;
      case bucket:
        if (replay_.job.exchange.overlap) post(e.index);
        return;
    }
  }

  /// Gives a bucket to the rank's other process.
  void post(int b) { MPI_Isend(nullptr, 0, MPI_BYTE, rank_, b, MPI_COMM_WORLD, &posted_[b]); }

  /// Computes for `seconds`, plus the time that the exchange has taken from the core in the meantime.
  void compute(double seconds) {
    double& owed = replay_.owed[rank_];
    replay_.computing[rank_] = true;
    for (double left = seconds; left > 0; left = owed) {
      if (left != seconds) owed = 0;
      sleep_for(left);
    }
    replay_.computing[rank_] = false;
  }

  Replay& replay_;
  int rank_;
  const bench::RankProgram& program_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  double seconds_, factor_ = 1, bytes_ = 0;
  std::vector<MPI_Request> posted_;
  std::vector<MPI_Request> messages_;  // in the order of the events
};

}  // namespace

void run_computation(Replay& replay, int rank) {
  Computation computation(replay, rank);
  for (double& slowest : replay.slowest) slowest = std::max(slowest, computation.step());
  replay.end = std::max(replay.end, simgrid::s4u::Engine::get_clock());
}

}  // namespace keelson::replay
