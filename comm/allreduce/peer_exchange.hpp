#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/allreduce/schedule.hpp"
#include "comm/mpi/collective_work.hpp"
#include "engine/base/communicator.hpp"
#include "engine/base/huge_pages.hpp"

namespace keelson::comm::detail {

/// Sums an array over the ranks of an MPI communicator by the sends and receives of a Schedule. One array at a time.
/// The exchange advances only in advance().
class PeerExchange {
 public:
  /// `most`: elements of the longest array. `tag`: of all messages, the same on all ranks; exchanges at the same time
  /// need different tags. The schedule must outlive the exchange.
  PeerExchange(MPI_Comm comm, int tag, const Schedule& schedule, std::size_t most, Wire wire);

  /// `residual`: the rounding errors of this array, kept from call to call; null with Wire::fp32.
  void start(float* data, std::size_t count, float* residual);
  /// Advances without waiting.
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
  HugePageArray<std::byte> out_, in_;  ///< numbers to send in fewer bits; received numbers to add or unpack
  std::array<MPI_Request, 2> requests_{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  float* data_ = nullptr;
  float* residual_ = nullptr;
  std::size_t count_ = 0, step_ = 0;
};

}  // namespace keelson::comm::detail
