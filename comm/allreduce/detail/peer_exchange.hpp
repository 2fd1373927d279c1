#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/allreduce/schedule.hpp"
#include "comm/detail/collective_work.hpp"
#include "engine/base/communicator.hpp"
#include "engine/base/huge_pages.hpp"

namespace keelson::comm::detail {

/// Sums an array over the ranks of an MPI communicator as a Schedule says, by sends and receives. One array at a time,
/// over and over. Nothing but advance() drives it.
class PeerExchange {
 public:
  /// `most`: elements of the longest array. `tag`: of all messages; exchanges that are under way at the same time need
  /// tags of their own, the same on all ranks. The schedule outlives the exchange.
  PeerExchange(MPI_Comm comm, int tag, const Schedule& schedule, std::size_t most, Wire wire);

  /// `residual`: of this array, what rounding has taken away, kept from call to call; null with Wire::fp32.
  void start(float* data, std::size_t count, float* residual);
  /// Does what can be done without waiting.
  CollectiveWork::Progress advance();

 private:
  struct Range {
    std::size_t begin, count;
  };
  Range sent(const ExchangeStep& step) const;
  Range received(const ExchangeStep& step) const;
  bool by_way_of_memory(const ExchangeStep& step) const { return step.adds || wire_ != Wire::fp32; }
  void post();
  void take();

  MPI_Comm comm_;
  int tag_;
  const Schedule& schedule_;
  Wire wire_;
  HugePageArray<std::byte> out_, in_;  ///< what is sent in fewer bits; what is received to be added or unpacked
  std::array<MPI_Request, 2> requests_{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  float* data_ = nullptr;
  float* residual_ = nullptr;
  std::size_t count_ = 0, step_ = 0;
};

}  // namespace keelson::comm::detail
