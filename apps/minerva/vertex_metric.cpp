#include "apps/minerva/vertex_metric.hpp"

#include <algorithm>
#include <cmath>

#include "apps/minerva/detector/detector.hpp"

namespace keelson::minerva {

VertexPlaces::VertexPlaces(const EventDataset& events) : planecodes_(events.options().target == "planecode") {
  Vertices v = events.vertices();
  z_ = std::move(v.z);
  std::vector<double> sums(static_cast<std::size_t>(events.classes()));
  std::vector<std::int64_t> counts(sums.size());
  for (std::size_t i = 0; i < z_.size(); ++i) {
    const auto k = events.class_of(v.planecodes[i], v.segments[i]);
    classes_.push_back(k);
    if (k < 0 || k >= events.classes()) continue;  // refused where labels are read
    sums[static_cast<std::size_t>(k)] += double{z_[i]};
    ++counts[static_cast<std::size_t>(k)];
  }
  for (std::size_t k = 0; k < sums.size(); ++k) middle_.push_back(sums[k] / static_cast<double>(counts[k]));
}

bool VertexPlaces::has_place(std::int64_t k) const { return !planecodes_ || (k > 0 && k + 1 < std::ssize(middle_)); }

double VertexPlaces::residual(std::int64_t event, std::int64_t predicted) const {
  const auto i = static_cast<std::size_t>(event);
  if (!has_place(classes_[i]) || !has_place(predicted)) return std::nan("");
  return middle_[static_cast<std::size_t>(predicted)] - double{z_[i]};
}

void VertexMetric::reset(const MetricSetup& setup) {
  classes_ = setup.prediction.elements();
  samples_ = setup.samples;
  std::ranges::fill(counts_, 0);
  sums_ = std::vector<ExactSum>(2);
  predicted_.assign(static_cast<std::size_t>(std::min(drawn_events, samples_)), 0);
}

void VertexMetric::update(const MetricBatch& batch) {
  constexpr int middle = bins / 2;
  for (std::int64_t s = 0; s < batch.count; ++s) {
    const float* logits = batch.predictions + s * classes_;
    const std::int64_t predicted = std::max_element(logits, logits + classes_) - logits, event = batch.indices[s];
    if (event < std::ssize(predicted_)) predicted_[static_cast<std::size_t>(event)] = predicted + 1;
    const double residual = places_->residual(event, predicted);
    if (!std::isfinite(residual)) continue;
    const double bin = std::floor(residual / bin_width + 0.5) + middle;
    ++counts_[static_cast<std::size_t>(std::clamp(bin, 0.0, bins - 1.0))];
    ++counts_[bins];
    counts_[bins + 1] += std::abs(residual) <= plane_pitch;
    sums_[0].add(residual);
    sums_[1].add(residual * residual);
  }
}

void VertexMetric::reduce(Communicator* communicator) {
  ExactSum::reduce(sums_, communicator);
  if (!communicator) return;
  communicator->allreduce(counts_.data(), counts_.size(), Reduction::sum);
  communicator->allreduce(predicted_.data(), predicted_.size(), Reduction::max);
}

double VertexMetric::mean() const { return sums_[0].value() / static_cast<double>(events()); }
double VertexMetric::rms() const { return std::sqrt(sums_[1].value() / static_cast<double>(events())); }
double VertexMetric::within_plane() const {
  return static_cast<double>(counts_[bins + 1]) / static_cast<double>(events());
}

std::vector<std::int64_t> VertexMetric::predicted() const {
  std::vector<std::int64_t> all;
  for (const auto p : predicted_) all.push_back(p - 1);
  return all;
}

}  // namespace keelson::minerva
