#include "engine/train/metrics/roc_auc.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/base/error.hpp"

namespace keelson {
namespace {

std::vector<std::size_t> rising(std::span<const float> scores) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  return order;
}

/// Logit k minus log sum exp of the other logits.
float log_odds(const float* logits, std::int64_t classes, std::int64_t k) {
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::int64_t c = 0; c < classes; ++c)
    if (c != k) most = std::max(most, static_cast<double>(logits[c]));
  for (std::int64_t c = 0; c < classes; ++c)
    if (c != k) sum += std::exp(static_cast<double>(logits[c]) - most);
  return static_cast<float>(static_cast<double>(logits[k]) - most - std::log(sum));
}

}  // namespace

double roc_auc(std::span<const float> scores, std::span<const std::uint8_t> labels) {
  KEELSON_EXPECT(scores.size() == labels.size());
  const auto order = rising(scores);
  double ranks = 0, positive = 0;
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    double of_class = 0;
    for (; end < order.size() && scores[order[end]] == scores[order[begin]]; ++end) of_class += labels[order[end]];
    // Equal scores share the mean of their ranks, which count from 1.
    ranks += of_class * (static_cast<double>(begin + end + 1) / 2);
    positive += of_class;
    begin = end;
  }
  const double negative = static_cast<double>(order.size()) - positive;
  if (positive == 0 || negative == 0) return std::nan("");
  return (ranks - positive * (positive + 1) / 2) / (positive * negative);
}

std::vector<std::pair<double, double>> roc_curve(std::span<const float> scores, std::span<const std::uint8_t> labels,
                                                 std::size_t most) {
  const auto order = rising(scores);
  double positive = 0;
  for (const std::uint8_t l : labels) positive += l;
  const double negative = static_cast<double>(labels.size()) - positive;
  std::vector<std::pair<double, double>> points{{0, 0}};
  const std::size_t step = std::max<std::size_t>(1, order.size() / std::max<std::size_t>(1, most));
  double found = 0, wrong = 0;
  for (std::size_t i = order.size(); i-- > 0;) {
    (labels[order[i]] != 0 ? found : wrong) += 1;
    const bool ends = i == 0 || scores[order[i - 1]] != scores[order[i]];
    if (ends && (i == 0 || (order.size() - i) % step == 0)) points.emplace_back(wrong / negative, found / positive);
  }
  return points;
}

void RocAuc::reset(const MetricSetup& s) {
  const Shape& p = s.prediction;
  const std::int64_t classes = p.rank() == 2 && p[0] == 1 ? p[1] : 0;
  if (classes < 2 || s.target.dtype != DType::s32 || s.target.shape.elements() != 1)
    refuse("{}: ROC AUC needs logits of at least two classes and one class for each sample, but '{}' has the shape {}",
           s.data, s.prediction_name, to_string(p));
  data_ = s.data;
  classes_ = classes;
  samples_ = s.samples;
  curves_ = classes == 2 ? 1 : static_cast<std::size_t>(classes);
  scores_.assign(curves_ * static_cast<std::size_t>(samples_), 0.0f);
  truth_.assign(static_cast<std::size_t>(samples_), 0.0f);
  values_.clear();
}

void RocAuc::update(const MetricBatch& b) {
  const auto* const truth = static_cast<const std::int32_t*>(b.targets);
  for (std::int64_t i = 0; i < b.count; ++i) {
    const auto at = static_cast<std::size_t>(b.indices[i]);
    truth_[at] = static_cast<float>(truth[i]);
    for (std::size_t k = 0; k < curves_; ++k)
      scores_[k * static_cast<std::size_t>(samples_) + at] =
          log_odds(b.predictions + i * classes_, classes_, curves_ == 1 ? 1 : static_cast<std::int64_t>(k));
  }
}

/// A sample is evaluated by one rank; the entries of the others are 0.
void RocAuc::reduce(Communicator* communicator) {
  if (communicator) {
    communicator->allreduce(scores_.data(), scores_.size(), Reduction::sum);
    communicator->allreduce(truth_.data(), truth_.size(), Reduction::sum);
  }
  for (std::size_t k = 0; k < curves_; ++k) values_.push_back(roc_auc(scores_of(k), labels_of(k)));
}

std::span<const float> RocAuc::scores_of(std::size_t k) const {
  const auto n = static_cast<std::size_t>(samples_);
  return std::span(scores_).subspan(k * n, n);
}

std::vector<std::uint8_t> RocAuc::labels_of(std::size_t k) const {
  std::vector<std::uint8_t> labels;
  for (const float t : truth_) labels.push_back(t == (curves_ == 1 ? 1.0f : static_cast<float>(k)) ? 1 : 0);
  return labels;
}

double RocAuc::value() const {
  double sum = 0, count = 0;
  for (const double v : values_)
    if (!std::isnan(v)) {
      sum += v;
      count += 1;
    }
  return sum / count;
}

std::vector<std::string> RocAuc::value_names() const {
  if (curves_ == 1 || names_.empty()) return {};
  return names_;
}

std::vector<std::pair<double, double>> RocAuc::curve(std::size_t k) const {
  return roc_curve(scores_of(k), labels_of(k));
}

}  // namespace keelson
