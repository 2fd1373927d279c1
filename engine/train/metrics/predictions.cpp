#include "engine/train/metrics/predictions.hpp"

#include <algorithm>

#include "engine/base/error.hpp"

namespace keelson {
namespace {

/// A place is sent as two floats, place / half and place % half, each exact.
constexpr std::int64_t half = 1 << 20;

}  // namespace

void Predictions::reset(const MetricSetup& setup) {
  const Shape& p = setup.prediction;
  const bool classes = setup.target.dtype == DType::s32 && setup.target.shape.elements() == 1 && p.rank() == 2;
  classes_ = classes && p[0] == 1 ? p[1] : 0;
  rows_ = of_classes() ? TargetRows() : TargetRows(setup);
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
    if (of_classes()) {
      const float* const logits = batch.predictions + n * classes_;
      mine_.insert(mine_.end(), logits, logits + classes_);
      mine_.push_back(static_cast<float>(static_cast<const std::int32_t*>(batch.targets)[n]));
      continue;
    }
    for (std::int64_t t = 0; t < rows_.targets(); ++t) mine_.push_back(rows_.predicted(batch, n, t));
    for (std::int64_t t = 0; t < rows_.targets(); ++t) mine_.push_back(rows_.truth(batch, n, t));
  }
}

void Predictions::reduce(Communicator* communicator) {
  const auto all = communicator ? communicator->gather(mine_, 0) : mine_;
  mine_ = {};
  if (communicator && communicator->rank() != 0) return;
  const auto targets = of_classes() ? 1 : static_cast<std::size_t>(rows_.targets()),
             values = of_classes() ? static_cast<std::size_t>(classes_) : targets, width = 2 + values + targets;
  KEELSON_EXPECT(all.size() == static_cast<std::size_t>(kept_) * width);
  predicted_.resize(static_cast<std::size_t>(kept_) * values);
  truth_.resize(static_cast<std::size_t>(kept_) * targets);
  for (std::size_t i = 0; i < all.size(); i += width) {
    const auto place = static_cast<std::size_t>(all[i]) * half + static_cast<std::size_t>(all[i + 1]);
    std::copy_n(&all[i + 2], values, &predicted_[place * values]);
    std::copy_n(&all[i + 2 + values], targets, &truth_[place * targets]);
  }
}

}  // namespace keelson
