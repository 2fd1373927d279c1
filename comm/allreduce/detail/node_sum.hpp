#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/allreduce/detail/node_memory.hpp"
#include "comm/allreduce/detail/peer_exchange.hpp"

namespace keelson::comm::detail {

/// Which ranks share memory.
struct NodeLayout {
  MPI_Comm node = MPI_COMM_NULL;   ///< the ranks that share memory with this rank
  MPI_Comm peers = MPI_COMM_NULL;  ///< the ranks with this rank's number in `node`, one of each node; null: none
  int nodes = 1;
  int parts = 1;  ///< ranks of the smallest node: those of each node that exchange a part of the array with their peers
};

/// Sums arrays over all ranks in two levels: the ranks of a node through memory that they share, each of them one part
/// of the array; then each part over the nodes, by the ranks that have summed it up. Arrays go through the shared
/// memory in pieces, of which several are under way, one behind the other, in the order in which the arrays are started
/// on all ranks. The ranks of a node are added in the order of their numbers.
class NodeSum {
 public:
  /// One array that is summed over and over.
  struct Job {
    float* data = nullptr;
    std::size_t count = 0;
    float* residual = nullptr;  ///< as in PeerExchange
    std::uint64_t end = 0;      ///< pieces of this group up to this sum's last
    Job* next = nullptr;        ///< started after this
  };

  /// `between`: how nodes add up; of `layout.nodes` ranks, those of `layout.peers`. `number`: of this NodeSum among
  /// those on the same communicators. Collective.
  NodeSum(const NodeLayout& layout, Schedule between, Wire wire, int number);

  /// All ranks start the same jobs in the same order. A job stays where it is until it is done.
  void start(Job& job);
  bool done(const Job& job) const { return gathered_ >= job.end; }
  /// Does what can be done without waiting. Whether that was anything.
  bool advance();

 private:
  struct Piece {
    float* data = nullptr;
    std::size_t count = 0;
    float* residual = nullptr;
    bool small = false;  ///< every rank of the node adds up the whole
  };
  struct Part {
    std::size_t begin, end;
  };

  std::size_t slot_of(std::uint64_t piece) const { return piece % memory_.slots(); }
  std::size_t floats_per_slot() const { return memory_.slot_bytes() / sizeof(float); }
  Piece& piece(std::uint64_t number) { return pieces_[slot_of(number)]; }
  Part part_of(int rank, std::size_t count) const;
  bool all_at(NodeMemory::Counter NodeMemory::Counters::* counter, std::uint64_t least) const;
  void take_next_piece();
  void fill(std::uint64_t number);
  void sum(std::uint64_t number);
  void add_up(const Piece& p, std::size_t slot, Part part, float* to) const;
  void publish(std::uint64_t number);
  void gather(std::uint64_t number);
  NodeMemory::Counters& mine() { return memory_.counters(memory_.rank()); }

  NodeLayout layout_;
  NodeMemory memory_;
  Schedule between_;
  std::vector<Piece> pieces_;                             ///< by slot
  std::vector<std::unique_ptr<PeerExchange>> exchanges_;  ///< by slot; empty with one node
  Job *first_ = nullptr, *last_ = nullptr;                ///< with pieces that are not taken yet
  std::size_t taken_of_first_ = 0;                        ///< elements
  std::uint64_t queued_ = 0;                              ///< pieces of all jobs so far
  std::uint64_t filled_ = 0, summed_ = 0, published_ = 0, gathered_ = 0;
};

}  // namespace keelson::comm::detail
