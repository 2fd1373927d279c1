#include "engine/train/metrics/target_metric.hpp"

#include <cmath>

#include "engine/base/error.hpp"

namespace keelson {

TargetRows::TargetRows(const MetricSetup& setup) : targets_(setup.target.shape.elements()) {
  if (setup.target.dtype != DType::f32)
    refuse("the field {} of {} holds {}. Expected f32, to compare the network's {} with", setup.target.name, setup.data,
           to_string(setup.target.dtype), setup.prediction_name);
  rows_ = setup.prediction[0];
  if (setup.prediction.elements() != rows_ * targets_)
    refuse("the network's {} of a sample is {}, but a sample of {} has {} targets", setup.prediction_name,
           to_string(setup.prediction), setup.data, targets_);
}

float TargetRows::predicted(const MetricBatch& batch, std::int64_t sample, std::int64_t target) const {
  const float* first = batch.predictions + sample * rows_ * targets_ + target;
  double sum = 0;
  for (std::int64_t r = 0; r < rows_; ++r) sum += first[r * targets_];
  return static_cast<float>(sum / static_cast<double>(rows_));
}

float TargetRows::truth(const MetricBatch& batch, std::int64_t sample, std::int64_t target) const {
  return static_cast<const float*>(batch.targets)[sample * targets_ + target];
}

void TargetMetric::reset(const MetricSetup& setup) {
  rows_ = TargetRows(setup);
  if (!units_.empty() && static_cast<std::int64_t>(units_.size()) != rows_.targets())
    refuse("{} targets are named, but the samples of {} have {}", units_.size(), setup.data, rows_.targets());
  sums_.assign(static_cast<std::size_t>(rows_.targets()) + 1, {});
}

void TargetMetric::update(const MetricBatch& batch) {
  for (std::int64_t n = 0; n < batch.count; ++n)
    for (std::int64_t t = 0; t < rows_.targets(); ++t) {
      const auto target = static_cast<std::size_t>(t);
      sums_[target].add(measure(target, rows_.predicted(batch, n, t), rows_.truth(batch, n, t)));
    }
  sums_.back().add(static_cast<double>(batch.count));
}

void TargetMetric::reduce(Communicator* communicator) { ExactSum::reduce(sums_, communicator); }

std::vector<double> TargetMetric::values() const {
  std::vector<double> means;
  for (std::size_t t = 0; t + 1 < sums_.size(); ++t) means.push_back(sums_[t].value() / sums_.back().value());
  return means;
}

double TargetMetric::value() const {
  const auto all = values();
  double mean = 0;
  for (double v : all) mean += v / static_cast<double>(all.size());
  return mean;
}

double MeanAbsoluteError::measure(std::size_t, double predicted, double truth) const {
  return std::abs(predicted - truth);
}

void MeanRelativeError::reset(const MetricSetup& setup) {
  if (targets().empty())
    refuse("no targets are named for the {} on {}. Expected a name, scale and offset for each", name(), setup.data);
  TargetMetric::reset(setup);
}

double MeanRelativeError::measure(std::size_t target, double predicted, double truth) const {
  const auto& unit = targets().at(target);
  return std::abs(unit.scale) * std::abs(predicted - truth) / std::abs(unit.scale * truth + unit.offset);
}

}  // namespace keelson
