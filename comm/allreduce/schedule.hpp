#pragma once

#include <cstddef>
#include <vector>

namespace keelson::comm::detail {

/// One exchange of a rank with at most two other ranks. The array is divided into Schedule::blocks equal blocks. Ranges
/// are blocks [begin, end), and empty if nothing is sent or received.
struct ExchangeStep {
  /// The rounding of values that are sent in 16 bits (Wire).
  enum class Sends : unsigned char {
    terms,  ///< terms of a sum that this rank no longer needs: it adds the rounding errors to its next sum
    sums,   ///< final sums, which must be the same on all ranks: this rank rounds its own, too
    copies  ///< values that were rounded before
  };

  int send_to = -1, receive_from = -1;             ///< ranks
  std::size_t send_begin = 0, send_end = 0;        ///< blocks that are sent
  std::size_t receive_begin = 0, receive_end = 0;  ///< blocks that are received
  bool adds = false;           ///< received values are added to this rank's values; else they replace them
  Sends sends = Sends::terms;  ///< the kind of the values sent
};

/// The steps by which one rank sums an array over all ranks, in place. Every rank ends with the same bits.
struct Schedule {
  std::size_t blocks = 1;           ///< of the array
  std::vector<ExchangeStep> steps;  ///< in order

  /// First element of a block of an array with `count` elements; for block `blocks`: the end.
  std::size_t begin_of(std::size_t block, std::size_t count) const {
    return count / blocks * block + count % blocks * block / blocks;
  }
};

/// Makes the schedule of rank `rank` of `ranks` ranks.
using MakeSchedule = Schedule (*)(int rank, int ranks);

/// Reduce-scatter and allgather round a ring. Each rank sends 2 (ranks - 1) / ranks of the array, the minimum, in 2
/// (ranks - 1) steps. The sum of each block begins at another rank. Patarasuk and Yuan, J. Parallel Distrib. Comput. 69
/// (2009) 117.
Schedule make_ring(int rank, int ranks);

/// Reduce-scatter by recursive halving, allgather by recursive doubling: the same number of bytes in 2 log2(ranks)
/// steps, nearest ranks first. If `ranks` is not a power of two, r ranks more than the next lower power first share
/// their terms with a neighbor, which adds for both: 2 more steps at the beginning and 1 at the end. Thakur,
/// Rabenseifner and Gropp, Int. J. High Perform. Comput. Appl. 19 (2005) 49.
Schedule make_halving(int rank, int ranks);

/// Recursive doubling: each of log2(ranks) steps sends the whole array to a partner; the fastest for few bytes. Other
/// numbers of ranks as in make_halving(). Same source.
Schedule make_doubling(int rank, int ranks);

}  // namespace keelson::comm::detail
