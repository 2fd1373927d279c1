#include "engine/ensemble/combination.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/base/error.hpp"
#include "engine/ensemble/scores.hpp"

namespace keelson::ensemble {
namespace {

constexpr std::int64_t half_place = 1 << 20;  // a place is sent as two floats, each exact
constexpr std::size_t header = 3;

}  // namespace

void ValueCombination::reset(const MetricSetup& setup, std::int64_t members) {
  rows_ = TargetRows(setup);
  per_sample_ = setup.prediction.elements();
  targets_.clear();
  for (std::int64_t t = 0; t < rows_.targets(); ++t)
    targets_.emplace_back(members, scales_.empty() ? 1 : scales_.at(static_cast<std::size_t>(t)));
}

const float* ValueCombination::update(const MemberPredictions& batch) {
  std::vector<double> means(batch.members.size()), variances(batch.variances.size());
  for (std::int64_t n = 0; n < batch.count; ++n)
    for (std::int64_t t = 0; t < rows_.targets(); ++t) {
      double truth = 0;
      for (std::size_t m = 0; m < means.size(); ++m) {
        const MetricBatch of_member{.count = batch.count, .predictions = batch.members[m], .targets = batch.targets};
        means[m] = rows_.predicted(of_member, n, t);
        truth = rows_.truth(of_member, n, t);
      }
      for (std::size_t m = 0; m < variances.size(); ++m)
        variances[m] = rows_.predicted({.count = batch.count, .predictions = batch.variances[m]}, n, t);
      targets_[static_cast<std::size_t>(t)].add(means, variances, truth);
    }
  const auto elements = static_cast<std::size_t>(batch.count * per_sample_);
  mean_.resize(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    double sum = 0;
    for (const float* member : batch.members) sum += member[i];
    mean_[i] = static_cast<float>(sum / static_cast<double>(batch.members.size()));
  }
  return mean_.data();
}

void ValueCombination::reduce(Communicator* communicator) {
  for (auto& t : targets_) t.reduce(communicator);
}

std::vector<double> ValueCombination::scales() const {
  std::vector<double> all;
  for (const auto& t : targets_) all.push_back(t.variance_scale());
  return all;
}

void ClassCombination::reset(const MetricSetup& setup, std::int64_t members) {
  points_ = ClassPoints(setup);
  scores_.emplace(members, temperature_);
  probabilities_.resize(static_cast<std::size_t>(members * points_.classes()));
  const std::int64_t all = setup.samples * points_.logits();
  every_ = most_ > 0 ? std::max<std::int64_t>(1, (all + most_ - 1) / most_) : 0;
  kept_.clear();
}

const float* ClassCombination::update(const MemberPredictions& batch) {
  logs_.resize(static_cast<std::size_t>(batch.count * points_.logits()));
  const auto classes = static_cast<std::size_t>(points_.classes());
  const std::ptrdiff_t stride = points_.stride();
  for (std::int64_t n = 0; n < batch.count; ++n)
    for (std::int64_t i = 0; i < points_.points(); ++i) {
      const auto truth = points_.truth(batch.targets, n, i, batch.indices[n]);
      const std::int64_t first = points_.first(n, i);
      const auto log_of = [&](std::int64_t k) -> float& { return logs_[static_cast<std::size_t>(first + k * stride)]; };
      if (truth == -1) {
        for (std::int64_t k = 0; k < points_.classes(); ++k) log_of(k) = 0;
        continue;
      }
      for (std::size_t m = 0; m < batch.members.size(); ++m)
        softmax(batch.members[m] + first, stride, std::span(probabilities_).subspan(m * classes, classes));
      scores_->add(probabilities_, truth);
      const auto mean = scores_->mean();
      for (std::int64_t k = 0; k < points_.classes(); ++k)
        log_of(k) = static_cast<float>(std::log(
            std::max(mean[static_cast<std::size_t>(k)], static_cast<double>(std::numeric_limits<float>::min()))));
      const std::int64_t place = batch.indices[n] * points_.points() + i;
      if (every_ == 0 || place % every_ != 0) continue;
      const std::int64_t high = place / every_ / half_place, low = place / every_ % half_place;
      kept_.insert(kept_.end(), {static_cast<float>(high), static_cast<float>(low), static_cast<float>(truth)});
      for (const double p : mean) kept_.push_back(static_cast<float>(p));
    }
  return logs_.data();
}

void ClassCombination::reduce(Communicator* communicator) {
  scores_->reduce(communicator);
  if (every_ == 0 || !communicator || communicator->size() == 1) return;
  auto all = communicator->gather(kept_, 0);
  auto size = static_cast<std::int64_t>(all.size());
  communicator->broadcast(&size, sizeof size, 0);
  all.resize(static_cast<std::size_t>(size));
  communicator->broadcast(all.data(), all.size() * sizeof(float), 0);
  kept_ = std::move(all);
}

double ClassCombination::fit() const {
  const std::size_t width = header + static_cast<std::size_t>(points_.classes()), points = kept_.size() / width;
  std::vector<std::size_t> order(points);  // of the data set, so that sums do not depend on the ranks
  std::iota(order.begin(), order.end(), 0);
  const auto place = [&](std::size_t i) { return std::pair(kept_[i * width], kept_[i * width + 1]); };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return place(a) < place(b); });
  std::vector<float> probabilities;
  std::vector<std::int32_t> truth;
  for (const std::size_t i : order) {
    const auto first = kept_.begin() + static_cast<std::ptrdiff_t>(i * width);
    truth.push_back(static_cast<std::int32_t>(first[2]));
    probabilities.insert(probabilities.end(), first + header, first + static_cast<std::ptrdiff_t>(width));
  }
  return fit_temperature(probabilities, truth);
}

}  // namespace keelson::ensemble
