#include "engine/ensemble/histogram.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/error.hpp"

namespace keelson::ensemble {

Histogram::Histogram(int bins) : counts_(static_cast<std::size_t>(std::max(bins, 0))) { KEELSON_EXPECT(bins > 0); }

int Histogram::bin_of(double x) const {
  const double place = std::floor(x * bins());
  if (!(place < bins())) return bins() - 1;  // also NaN
  return place < 0 ? 0 : static_cast<int>(place);
}

void Histogram::reduce(Communicator* communicator) {
  if (communicator) communicator->allreduce(counts_.data(), counts_.size(), Reduction::sum);
}

std::int64_t Histogram::total() const {
  std::int64_t all = 0;
  for (const auto count : counts_) all += count;
  return all;
}

Reliability::Reliability(int bins) : counts_(bins), correct_(counts_.counts().size()), confidence_(correct_.size()) {}

void Reliability::add(double confidence, bool correct) {
  const auto bin = static_cast<std::size_t>(counts_.bin_of(confidence));
  counts_.add(confidence);
  confidence_[bin].add(confidence);
  if (correct) ++correct_[bin];
}

void Reliability::reduce(Communicator* communicator) {
  counts_.reduce(communicator);
  if (communicator) communicator->allreduce(correct_.data(), correct_.size(), Reduction::sum);
  ExactSum::reduce(confidence_, communicator);
}

std::vector<Reliability::Bin> Reliability::bins() const {
  std::vector<Bin> all;
  for (std::size_t b = 0; b < correct_.size(); ++b) {
    const auto count = counts_.counts()[b];
    const auto of = static_cast<double>(std::max<std::int64_t>(count, 1));
    all.push_back({count, confidence_[b].value() / of, static_cast<double>(correct_[b]) / of});
  }
  return all;
}

double Reliability::ece() const {
  const auto total = static_cast<double>(counts_.total());
  if (total == 0) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (const Bin& b : bins()) sum += static_cast<double>(b.count) / total * std::abs(b.accuracy - b.confidence);
  return sum;
}

}  // namespace keelson::ensemble
