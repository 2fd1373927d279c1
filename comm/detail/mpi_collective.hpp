#pragma once

#include <mpi.h>

#include <vector>

#include "comm/detail/mpi_communicator.hpp"

namespace keelson::comm::detail {

/// A non-blocking call on fixed memory, in pieces whose counts fit an int; or blocking ones.
class MpiCollective final : public Collective {
 public:
  MpiCollective(MpiCommunicator& owner, const CollectiveDesc& desc);
  ~MpiCollective() override;
  MpiCollective(const MpiCollective&) = delete;

  void start() override;
  bool test() override;
  void wait() override;
  /// For a collective of all ranks, instead of start() and wait(): waits for all ranks, under the watchdog, and then
  /// does it by blocking calls, which no watchdog sees.
  void run_blocking();

 private:
  struct Piece {
    const char* src;
    char* dst;
    int count;  ///< elements
  };
  std::size_t pieces() const;
  Piece piece_of(std::size_t i) const;
  int call(std::size_t i, MPI_Request& request);  ///< MPI's, for piece i; returns its result
  int blocking_call(std::size_t i);               ///< the same, blocking
  void finish();
  void end();

  MpiCommunicator& owner_;
  CollectiveDesc desc_;
  MPI_Datatype type_;                     ///< of an element
  std::size_t piece_;                     ///< elements of the longest piece
  std::size_t pieces_per_part_;           ///< of the array, or of each rank's part of the array
  std::vector<MPI_Request> requests_;     ///< one per piece
  std::vector<MPI_Datatype> part_types_;  ///< where each rank's part goes in pieces: one per piece
  std::size_t done_ = 0;                  ///< pieces known to be done
  Wait wait_;
  int message_ = 0;  ///< of a send or receive: the number that both have
  bool active_ = false;
};

}  // namespace keelson::comm::detail
