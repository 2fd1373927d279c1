#include <mpi.h>

#include <random>
#include <simgrid/s4u.hpp>

#include "apps/replay/processes.hpp"

namespace keelson::replay {
namespace {

using simgrid::s4u::this_actor::sleep_for;

/// Computes for `seconds`, plus the time that the exchange has taken from the core in the meantime.
void compute(Replay& replay, int rank, double seconds) {
  double& owed = replay.owed[rank];
  replay.computing[rank] = true;
  for (double left = seconds; left > 0; left = owed) {
    if (left != seconds) owed = 0;
    sleep_for(left);
  }
  replay.computing[rank] = false;
}

}  // namespace

void run_computation(Replay& replay, int rank) {
  const auto& job = replay.job;
  const int buckets = static_cast<int>(job.buckets.size());
  std::mt19937_64 random(job.seed * 1000003u + static_cast<unsigned>(rank));
  std::normal_distribution<double> normal;
  double bytes = 0;
  for (const auto& b : job.buckets) bytes += static_cast<double>(b.bytes);
  std::vector<MPI_Request> posted(job.buckets.size(), MPI_REQUEST_NULL);
  const auto post = [&](int b) { MPI_Isend(nullptr, 0, MPI_BYTE, rank, b, MPI_COMM_WORLD, &posted[b]); };
  for (double& slowest : replay.slowest) {
    const double factor = std::max(0.5, 1 + job.machine.imbalance * normal(random));
    compute(replay, rank, job.forward * factor);
    double done = 0;
    for (int b = 0; b < buckets; ++b) {
      compute(replay, rank, (job.buckets[b].ready - done) * factor);
      done = job.buckets[b].ready;
      if (job.exchange.overlap) post(b);
    }
    compute(replay, rank, (job.backward - done) * factor);
    for (int b = 0; b < buckets && !job.exchange.overlap; ++b) post(b);
    for (int b = 0; b < buckets; ++b) {
      MPI_Recv(nullptr, 0, MPI_BYTE, rank, b, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      compute(replay, rank, job.update * factor * static_cast<double>(job.buckets[b].bytes) / bytes);
    }
    MPI_Waitall(buckets, posted.data(), MPI_STATUSES_IGNORE);
    slowest = std::max(slowest, factor * (job.forward + job.backward + job.update));
  }
  replay.end = std::max(replay.end, simgrid::s4u::Engine::get_clock());
}

}  // namespace keelson::replay
