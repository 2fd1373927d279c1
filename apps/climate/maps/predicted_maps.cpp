#include "apps/climate/maps/predicted_maps.hpp"

#include <algorithm>

namespace keelson::climate {

void PredictedMaps::reset(const MetricSetup& setup) {
  samples_ = std::min(most_, setup.samples);
  pixels_ = setup.target.shape.elements();
  classes_ = setup.prediction.elements() / pixels_;
  kept_.clear();
  maps_.clear();
}

void PredictedMaps::update(const MetricBatch& batch) {
  for (std::int64_t n = 0; n < batch.count; ++n) {
    if (batch.indices[n] >= samples_) continue;
    kept_.push_back(static_cast<float>(batch.indices[n]));
    const float* logits = batch.predictions + n * classes_ * pixels_;
    for (std::int64_t i = 0; i < pixels_; ++i) {
      std::int64_t best = 0;
      for (std::int64_t k = 1; k < classes_; ++k)
        if (logits[k * pixels_ + i] > logits[best * pixels_ + i]) best = k;
      kept_.push_back(static_cast<float>(best));
    }
  }
}

void PredictedMaps::reduce(Communicator* communicator) {
  if (communicator) kept_ = communicator->gather(kept_, 0);
  if (kept_.empty()) return;
  maps_.resize(static_cast<std::size_t>(samples_));
  for (auto at = kept_.begin(); at != kept_.end(); at += pixels_ + 1)
    maps_[static_cast<std::size_t>(*at)].assign(at + 1, at + 1 + pixels_);
}

}  // namespace keelson::climate
