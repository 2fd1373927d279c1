#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "comm/mpi/collective_work.hpp"
#include "engine/base/communicator.hpp"

namespace keelson::comm::detail {

/// A collective, or a send or receive, by non-blocking calls of the MPI library. Each call is for a piece whose count
/// fits an int.
class MpiCalls final : public CollectiveWork {
 public:
  /// `tag`: for a send or receive. `piece`: elements of the longest piece.
  MpiCalls(MPI_Comm comm, const CollectiveDesc& desc, int tag, std::size_t piece);
  ~MpiCalls() override;
  MpiCalls(const MpiCalls&) = delete;

  void start() override;
  Progress advance() override;
  void abandon() override;
  bool needs_driving() const override { return false; }
  /// Instead of start() and advance(): makes blocking calls. Not for a send or receive.
  void run_blocking();

 private:
  struct Piece {
    const char* src;
    char* dst;
    int count;  ///< elements
  };
  std::size_t pieces() const;
  Piece piece_of(std::size_t i) const;
  int call(std::size_t i, MPI_Request& request);  ///< calls MPI for piece i; returns the result of the call
  int blocking_call(std::size_t i);               ///< the same with the blocking call

  MPI_Comm comm_;
  CollectiveDesc desc_;
  int tag_, size_ = 1;
  MPI_Datatype type_;                     ///< type of an element
  std::size_t piece_;                     ///< elements of the longest piece
  std::size_t pieces_per_part_;           ///< of the array, or of each rank's part of the array
  std::vector<MPI_Request> requests_;     ///< one per piece
  std::vector<MPI_Datatype> part_types_;  ///< the layout of each rank's part if it is sent in pieces: one per piece
  std::size_t done_ = 0;                  ///< pieces that are done
};

}  // namespace keelson::comm::detail
