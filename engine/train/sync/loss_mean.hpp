#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "engine/base/communicator.hpp"

namespace keelson {

/// The means over ranks of the losses of steps, some of which are under way. All ranks make the same calls.
class LossMean {
 public:
  /// `most`: losses under way. `ranks` must outlive this.
  LossMean(Communicator& ranks, std::size_t most);
  /// Starts the mean of the ranks' losses of the next step. Not if `most` are under way.
  void post(double loss);
  /// Waits for the oldest mean under way. The same bits on all ranks.
  double take();

 private:
  double ranks_;
  std::vector<double> losses_;
  std::vector<std::unique_ptr<Collective>> sums_;
  std::size_t posted_ = 0, taken_ = 0;
};

}  // namespace keelson
