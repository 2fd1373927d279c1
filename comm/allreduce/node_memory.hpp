#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace keelson::comm::detail {

/// Memory that the ranks of a node share: for each rank some slots of the same size, and counters that only this rank
/// increases. A rank that reads a counter of another rank sees all data that the other rank wrote before increasing it.
class NodeMemory {
 public:
  using Counter = std::atomic<std::uint64_t>;
  /// The counters of a rank, on their own cache lines.
  struct alignas(128) Counters {
    Counter filled, summed, emptied;
  };

  /// `node`: ranks that can share memory. Throws Error if MPI cannot make the shared memory. Collective.
  NodeMemory(MPI_Comm node, std::size_t slot_bytes, std::size_t slots);
  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(bases_.size()); }
  std::size_t slots() const { return slots_; }
  std::size_t slot_bytes() const { return slot_bytes_; }
  float* slot(int rank, std::size_t number) const {
    return reinterpret_cast<float*>(base(rank) + sizeof(Counters) + number * slot_bytes_);
  }
  Counters& counters(int rank) const { return *reinterpret_cast<Counters*>(base(rank)); }

 private:
  std::byte* base(int rank) const { return bases_[static_cast<std::size_t>(rank)]; }

  std::size_t slot_bytes_, slots_;
  int rank_ = 0;
  MPI_Win window_ = MPI_WIN_NULL;
  std::vector<std::byte*> bases_;  ///< by rank
};

}  // namespace keelson::comm::detail
