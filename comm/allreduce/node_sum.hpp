#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/allreduce/node_memory.hpp"
#include "comm/allreduce/peer_exchange.hpp"

namespace keelson::comm::detail {

/// The ranks that share memory.
struct NodeLayout {
  MPI_Comm node = MPI_COMM_NULL;  ///< the ranks that share memory with this rank
  /// the ranks with the same number in their nodes' `node`, one of each node; null: none
  MPI_Comm peers = MPI_COMM_NULL;
  int nodes = 1;
  int parts = 1;  ///< ranks of the smallest node: so many ranks of each node exchange a part with their peers
};

/// Sums arrays over all ranks in two levels. First each rank of a node sums one part of the array over the ranks of the
/// node, through memory that they share. Then the rank that has summed a part sums it over the nodes. Arrays go through
/// the shared memory in pieces, several at a time, in the order in which the arrays are started. The terms of a node's
/// ranks are added in the order of the ranks.
class NodeSum {
 public:
  /// One array that is summed many times.
  struct Request {
    float* data = nullptr;
    std::size_t count = 0;
    float* residual = nullptr;  ///< as in PeerExchange
    std::uint64_t end = 0;      ///< number after the last piece of this sum, among all pieces
    Request* next = nullptr;    ///< the request that was started after this one
  };

  /// `between`: the exchange between nodes, among the ranks of `layout.peers`. `number`: of this NodeSum among all on
  /// the same communicators. Collective.
  NodeSum(const NodeLayout& layout, Schedule between, Wire wire, int number);

  /// All ranks start the same requests in the same order. A request must stay at its address until it is done.
  void start(Request& request);
  bool done(const Request& request) const { return gathered_ >= request.end; }
  /// Advances without waiting. Returns whether anything was done.
  bool advance();

 private:
  struct Piece {
    float* data = nullptr;
    std::size_t count = 0;
    float* residual = nullptr;
    bool small = false;  ///< every rank of the node sums the whole piece
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
  Request *first_ = nullptr, *last_ = nullptr;            ///< requests that are not yet completely cut into pieces
  std::size_t taken_of_first_ = 0;                        ///< elements of the first request
  std::uint64_t queued_ = 0;                              ///< pieces of all requests so far
  std::uint64_t filled_ = 0, summed_ = 0, published_ = 0, gathered_ = 0;
};

}  // namespace keelson::comm::detail
