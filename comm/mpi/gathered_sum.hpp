#pragma once

#include <mpi.h>

#include <vector>

#include "comm/mpi/calls.hpp"

namespace keelson::comm::detail {

/// An allreduce of few f64 numbers (losses) in SumOrder::tree: every rank gets the terms of all ranks and adds them.
class GatheredSum final : public CollectiveWork {
 public:
  /// `desc`: an allreduce of f64. The number of ranks is a power of two.
  GatheredSum(MPI_Comm comm, const CollectiveDesc& desc);

  void start() override { gather_.start(); }
  Progress advance() override;
  void abandon() override { gather_.abandon(); }
  bool needs_driving() const override { return false; }

 private:
  double* sums_;
  std::size_t count_;
  std::vector<double> terms_;  ///< (ranks, count)
  MpiCalls gather_;
};

}  // namespace keelson::comm::detail
