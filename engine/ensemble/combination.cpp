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
  setup_ = setup;
  members_ = members;
  const Shape& p = setup.prediction;
  if (setup.target.dtype != DType::s32)
    refuse("the field {} of {} holds {}. Expected s32, the class of each prediction", setup.target.name, setup.data,
           to_string(setup.target.dtype));
  points_ = setup.target.shape.elements();
  classes_ = p.rank() > 1 ? p[1] : 0;
  if (classes_ < 2 || p.elements() != classes_ * points_ || (p[0] != points_ && p[0] != 1))
    refuse("the network's {} of a sample is {}, but a sample of {} has {} true classes. Expected logits for each",
           setup.prediction_name, to_string(p), setup.data, points_);
  const bool rows = p[0] == points_ && p.rank() == 2;
  stride_ = rows ? 1 : points_;
  step_ = rows ? classes_ : 1;
  scores_.emplace(members, temperature_);
  probabilities_.resize(static_cast<std::size_t>(members * classes_));
  const std::int64_t all = setup.samples * points_ * classes_;
  every_ = most_ > 0 ? std::max<std::int64_t>(1, (all + most_ - 1) / most_) : 0;
  kept_.clear();
}

const float* ClassCombination::update(const MemberPredictions& batch) {
  logs_.resize(static_cast<std::size_t>(batch.count * points_ * classes_));
  const auto classes = static_cast<std::size_t>(classes_);
  for (std::int64_t n = 0; n < batch.count; ++n)
    for (std::int64_t i = 0; i < points_; ++i) {
      const auto truth = static_cast<const std::int32_t*>(batch.targets)[n * points_ + i];
      if (truth < -1 || truth >= classes_)
        refuse("sample {} of {} has the class {}. Expected 0 to {}, the classes of the network", batch.indices[n],
               setup_.data, truth, classes_ - 1);
      const std::int64_t first = n * points_ * classes_ + i * step_;
      if (truth == -1) {
        for (std::int64_t k = 0; k < classes_; ++k) logs_[static_cast<std::size_t>(first + k * stride_)] = 0;
        continue;
      }
      for (std::size_t m = 0; m < batch.members.size(); ++m)
        softmax(batch.members[m] + first, stride_, std::span(probabilities_).subspan(m * classes, classes));
      scores_->add(probabilities_, truth);
      const auto mean = scores_->mean();
      for (std::int64_t k = 0; k < classes_; ++k)
        logs_[static_cast<std::size_t>(first + k * stride_)] = static_cast<float>(std::log(
            std::max(mean[static_cast<std::size_t>(k)], static_cast<double>(std::numeric_limits<float>::min()))));
      const std::int64_t place = batch.indices[n] * points_ + i;
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
  const std::size_t width = header + static_cast<std::size_t>(classes_), points = kept_.size() / width;
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
