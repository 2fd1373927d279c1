#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "engine/base/communicator.hpp"

namespace keelson {

/// The means over ranks of the losses of steps. Several means may be in flight. All ranks make the same calls.
class LossMean {
 public:
  /// `most`: means in flight. `ranks` must outlive this.
  LossMean(Communicator& ranks, std::size_t most);
  /// Starts the mean of the ranks' losses of the next step. At most `most` means may be in flight.
  void post(double loss);
  /// Waits for the oldest mean in flight, and returns it. The same bits on all ranks.
  double take();

 private:
  double ranks_;
  std::vector<double> losses_;
  std::vector<std::unique_ptr<Collective>> sums_;
  std::size_t posted_ = 0, taken_ = 0;
};

}  // namespace keelson
