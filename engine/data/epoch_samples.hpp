#pragma once

#include <cstdint>
#include <vector>

namespace keelson {

/// The samples of one epoch, if not all samples of the data set are read, or if some count more than others. The same
/// on all ranks.
struct EpochSamples {
  std::vector<std::int64_t> order;  ///< numbers of the samples in the data set, in the order of the epoch
  std::vector<float> weights;       ///< by the number in the data set: weight of the sample's loss; above 0 in `order`
  /// How many samples those in `order` stand for: the losses of a step are divided by its number of samples times
  /// represented / order.size(). So the mean over the epoch's steps is sum w l / represented.
  std::int64_t represented = 0;

  std::int64_t size() const { return static_cast<std::int64_t>(order.size()); }  ///< samples of the epoch
};

}  // namespace keelson
