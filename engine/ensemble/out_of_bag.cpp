#include "engine/ensemble/out_of_bag.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/error.hpp"
#include "engine/data/bag.hpp"
#include "engine/ensemble/scores.hpp"

namespace keelson::ensemble {

void OutOfBag::reset(const MetricSetup& setup, std::int64_t members) {
  KEELSON_EXPECT(members == std::ssize(seeds_));
  classes_ = setup.target.dtype == DType::s32;
  if (classes_) {
    points_ = ClassPoints(setup);
    probabilities_.resize(static_cast<std::size_t>(points_.classes()));
  } else {
    rows_ = TargetRows(setup);
  }
  losses_.assign(static_cast<std::size_t>(setup.samples), 0);
  members_.assign(static_cast<std::size_t>(setup.samples), 0);
}

std::vector<std::size_t> OutOfBag::members_without(std::int64_t sample) const {
  std::vector<std::size_t> members;
  for (std::size_t m = 0; m < seeds_.size(); ++m)
    if (bag_weight(seeds_[m], sample) == 0) members.push_back(m);
  return members;
}

double OutOfBag::loss_of_classes(const MemberPredictions& batch, std::int64_t n,
                                 const std::vector<std::size_t>& members) {
  double sum = 0;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < points_.points(); ++i) {
    const auto truth = points_.truth(batch.targets, n, i, batch.indices[n]);
    if (truth == -1) continue;
    double mean = 0;
    for (const std::size_t m : members) {
      softmax(batch.members[m] + points_.first(n, i), points_.stride(), probabilities_);
      mean += probabilities_[static_cast<std::size_t>(truth)] / static_cast<double>(members.size());
    }
    sum -= std::log(std::max(mean, std::numeric_limits<double>::min()));
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
}

double OutOfBag::loss_of_numbers(const MemberPredictions& batch, std::int64_t n,
                                 const std::vector<std::size_t>& members) const {
  double sum = 0;
  for (std::int64_t t = 0; t < rows_.targets(); ++t) {
    double mean = 0, truth = 0;
    for (const std::size_t m : members) {
      const MetricBatch of_member{.count = batch.count, .predictions = batch.members[m], .targets = batch.targets};
      mean += rows_.predicted(of_member, n, t) / static_cast<double>(members.size());
      truth = rows_.truth(of_member, n, t);
    }
    sum += (mean - truth) * (mean - truth);
  }
  return sum / static_cast<double>(rows_.targets());
}

const float* OutOfBag::update(const MemberPredictions& batch) {
  for (std::int64_t n = 0; n < batch.count; ++n) {
    const auto sample = static_cast<std::size_t>(batch.indices[n]);
    const auto members = members_without(batch.indices[n]);
    members_[sample] = std::ssize(members);
    losses_[sample] = members.empty() ? std::numeric_limits<double>::quiet_NaN()
                      : classes_      ? loss_of_classes(batch, n, members)
                                      : loss_of_numbers(batch, n, members);
  }
  return nullptr;
}

void OutOfBag::reduce(Communicator* communicator) {
  if (!communicator) return;  // each sample is one rank's; the others have 0
  communicator->allreduce(losses_.data(), losses_.size(), Reduction::sum);
  communicator->allreduce(members_.data(), members_.size(), Reduction::sum);
}

std::vector<std::int64_t> OutOfBag::largest(std::size_t most) const {
  std::vector<std::int64_t> samples;
  for (std::size_t i = 0; i < losses_.size(); ++i)
    if (!std::isnan(losses_[i])) samples.push_back(static_cast<std::int64_t>(i));
  const auto end = samples.begin() + static_cast<std::ptrdiff_t>(std::min(most, samples.size()));
  std::ranges::partial_sort(samples, end, [&](std::int64_t a, std::int64_t b) {
    const double x = losses_[static_cast<std::size_t>(a)], y = losses_[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  samples.erase(end, samples.end());
  return samples;
}

}  // namespace keelson::ensemble
