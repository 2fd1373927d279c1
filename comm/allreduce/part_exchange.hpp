#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "comm/mpi/collective_work.hpp"
#include "engine/base/communicator.hpp"
#include "engine/base/huge_pages.hpp"

namespace keelson::comm::detail {

/// One exchange of a rank with at most two other ranks. The array has one part per rank.
struct PartStep {
  int send_to, receive_from;  ///< ranks
  std::vector<int> sent;      ///< parts
  std::vector<int> received;  ///< parts, in the order in which the other rank sends them
};

/// What rank `rank` does so that each rank has the sum of its part: recursive halving, nearest ranks first, where
/// `ranks` is a power of two, else a ring. Each rank sends (ranks - 1) / ranks of the array. By halving, the sums have
/// the same bits as those of make_halving().
std::vector<PartStep> make_reduce_scatter(int rank, int ranks);
/// What rank `rank` does so that each rank has the parts of all ranks: the steps of make_reduce_scatter() backwards.
std::vector<PartStep> make_allgather(int rank, int ranks);

/// A reduce-scatter of f32 whose src may be overwritten, or an allgather in place, by sends and receives. Messages are
/// short, so that little memory is needed.
class PartExchange final : public CollectiveWork {
 public:
  static constexpr int most_at_once = 2;  ///< messages on their way to a rank; each needs a tag of its own

  /// `desc`: CollectiveDesc::consumes_src or CollectiveDesc::in_place() is true.
  PartExchange(MPI_Comm comm, int first_tag, const CollectiveDesc& desc);

  void start() override;
  Progress advance() override;

 private:
  /// Does all steps for every most_at_once-th piece of the parts.
  struct Lane {
    int tag;
    HugePageArray<float> out, in;  ///< pieces of several parts, one behind the other
    std::size_t piece = 0;         ///< the piece that is exchanged now; pieces_ or more: none
    std::size_t step = 0;
    std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  };
  float* piece_of(int part, std::size_t piece) const {
    return data_ + static_cast<std::size_t>(part) * count_ + piece * piece_;
  }
  std::size_t length(std::size_t piece) const { return std::min(piece_, count_ - piece * piece_); }
  void post(Lane& lane);
  void take(Lane& lane);
  Progress advance(Lane& lane);

  MPI_Comm comm_;
  bool adds_;  ///< received pieces are added; else they replace what is there
  std::vector<PartStep> steps_;
  float* data_;                ///< the whole array
  float* result_;              ///< of a reduce-scatter: where the sum goes
  std::size_t count_, piece_;  ///< elements of a part, of the longest piece
  std::size_t pieces_;         ///< of each part
  int rank_ = 0;
  std::vector<Lane> lanes_;
};

}  // namespace keelson::comm::detail
