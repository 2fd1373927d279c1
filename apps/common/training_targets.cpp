#include "apps/common/training_targets.hpp"

#include <algorithm>
#include <cstddef>

#include "engine/base/error.hpp"
#include "engine/data/epoch_order.hpp"

namespace keelson::app {
namespace {

constexpr const char *sum_name = "target_sum", *samples_name = "target_samples";

std::vector<double> mean_of(const std::vector<double>& sums) {
  std::vector<double> mean;
  if (sums.empty() || sums.back() == 0) return mean;
  for (std::size_t t = 0; t + 1 < sums.size(); ++t) mean.push_back(sums[t] / sums.back());
  return mean;
}

/// The sums in a state, then the number of samples; empty if the state has no sums.
std::vector<double> sums_of(const RunState& s) {
  const auto sum = s.observed.find(sum_name), samples = s.observed.find(samples_name);
  if (sum == s.observed.end() || samples == s.observed.end() || samples->second.size() != 1) return {};
  if (samples->second[0] < 0)
    refuse("the checkpoint's {} is {}, expected 0 or more: use an earlier checkpoint or best.h5 of the run",
           samples_name, samples->second[0]);
  auto sums = sum->second;
  sums.push_back(samples->second[0]);
  return sums;
}

}  // namespace

TrainingTargets::TrainingTargets(const Dataset& training, const TrainerOptions& options, Communicator* communicator,
                                 MeanBaseline& baseline)
    : training_(training),
      seed_(options.seed),
      shuffle_(options.shuffle),
      transform_(options.transform),
      communicator_(communicator),
      space_(options.replica.space),
      baseline_(baseline) {
  const auto& fields = training.fields();
  while (field_ < fields.size() && fields[field_].name != options.evaluation.target) ++field_;
  KEELSON_EXPECT(field_ < fields.size() && fields[field_].dtype == DType::f32);
  sums_.resize(static_cast<std::size_t>(fields[field_].shape.elements()) + 1);
  mine_.resize(sums_.size());
}

void TrainingTargets::on_start(const RunState& s, const std::filesystem::path&) {
  std::fill(sums_.begin(), sums_.end(), 0.0);
  std::fill(mine_.begin(), mine_.end(), 0.0);
  added_.clear();
  if (const auto found = sums_of(s); found.size() == sums_.size()) sums_ = found;
  done_ = static_cast<std::int64_t>(sums_.back());
}

void TrainingTargets::on_batch(const RunState& s, const Batch& batch) {
  if (s.epoch > 0) return;
  const auto targets = mine_.size() - 1;
  done_ += batch.global_count;
  if (batch.count == 0 || (communicator_ && communicator_->rank() % space_ != 0)) return;
  const auto* y = static_cast<const float*>(batch.fields[field_]);
  for (std::size_t i = 0; i < static_cast<std::size_t>(batch.count) * targets; ++i) mine_[i % targets] += y[i];
  mine_[targets] += static_cast<double>(batch.count);
}

void TrainingTargets::sum_over_ranks(std::vector<double>& sums) const {
  if (communicator_) communicator_->allreduce(sums.data(), sums.size(), Reduction::sum);
}

std::vector<double> TrainingTargets::read_again(std::int64_t first, std::int64_t end) const {
  const EpochOrder order(training_.size(), seed_, 0);
  std::vector<std::vector<std::byte>> sample;
  std::vector<void*> fields;
  for (const Field& f : training_.fields()) {
    sample.emplace_back(static_cast<std::size_t>(f.shape.elements()) * size_of(f.dtype));
    fields.push_back(sample.back().data());
  }
  std::vector<double> sums(sums_.size());
  const auto* y = static_cast<const float*>(fields[field_]);
  for (std::int64_t i = first + communicator_->rank(); i < end; i += communicator_->size()) {
    training_.read_sample({.id = {seed_, 0, shuffle_ ? order[i] : i}, .transform = transform_.get()}, fields.data());
    for (std::size_t t = 0; t + 1 < sums.size(); ++t) sums[t] += y[t];
    ++sums.back();
  }
  return sums;
}

std::vector<double> TrainingTargets::merged() {
  added_ = mine_;
  sum_over_ranks(added_);
  const auto before = static_cast<std::int64_t>(sums_.back());
  if (const auto added = static_cast<std::int64_t>(added_.back()); communicator_ && before + added < done_) {
    added_ = read_again(before, done_);  // a rank was lost with its sums
    sum_over_ranks(added_);
  }
  auto all = sums_;
  for (std::size_t t = 0; t < all.size(); ++t) all[t] += added_[t];
  return all;
}

void TrainingTargets::on_agreement() {
  if (added_.empty()) return;
  for (std::size_t t = 0; t < sums_.size(); ++t) sums_[t] += added_[t];
  std::fill(mine_.begin(), mine_.end(), 0.0);
  added_.clear();
}

void TrainingTargets::on_validation_start(const RunState&) { baseline_.set_mean(mean_of(merged())); }

void TrainingTargets::before_checkpoint(RunState& s) {
  auto sums = merged();
  s.observed[samples_name] = {sums.back()};
  sums.pop_back();
  s.observed[sum_name] = std::move(sums);
}

std::vector<double> TrainingTargets::mean(const RunState& s) { return mean_of(sums_of(s)); }

}  // namespace keelson::app
