#include "engine/train/metrics/predictions.hpp"

#include <algorithm>

#include "engine/base/error.hpp"

namespace keelson {
namespace {

/// A place is sent as two floats, place / half and place % half, each exact.
constexpr std::int64_t half = 1 << 20;

}  // namespace

void Predictions::reset(const MetricSetup& setup) {
  rows_ = TargetRows(setup);
  every_ = most_ > 0 ? std::max<std::int64_t>(1, (setup.samples + most_ - 1) / most_) : 1;
  kept_ = (setup.samples + every_ - 1) / every_;
  mine_.clear();
  predicted_.clear();
  truth_.clear();
}

void Predictions::update(const MetricBatch& batch) {
  for (std::int64_t n = 0; n < batch.count; ++n) {
    if (batch.indices[n] % every_ != 0) continue;
    const std::int64_t place = batch.indices[n] / every_, high = place / half, low = place % half;
    mine_.push_back(static_cast<float>(high));
    mine_.push_back(static_cast<float>(low));
    for (std::int64_t t = 0; t < rows_.targets(); ++t) mine_.push_back(rows_.predicted(batch, n, t));
    for (std::int64_t t = 0; t < rows_.targets(); ++t) mine_.push_back(rows_.truth(batch, n, t));
  }
}

void Predictions::reduce(Communicator* communicator) {
  const auto all = communicator ? communicator->gather(mine_, 0) : mine_;
  mine_ = {};
  if (communicator && communicator->rank() != 0) return;
  const auto targets = static_cast<std::size_t>(rows_.targets()), width = 2 + 2 * targets;
  KEELSON_EXPECT(all.size() == static_cast<std::size_t>(kept_) * width);
  predicted_.resize(static_cast<std::size_t>(kept_) * targets);
  truth_.resize(predicted_.size());
  for (std::size_t i = 0; i < all.size(); i += width) {
    const auto place = static_cast<std::size_t>(all[i]) * half + static_cast<std::size_t>(all[i + 1]);
    std::copy_n(&all[i + 2], targets, &predicted_[place * targets]);
    std::copy_n(&all[i + 2 + targets], targets, &truth_[place * targets]);
  }
}

}  // namespace keelson
