#include "engine/train/samples/sample_pruning.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/base/error.hpp"
#include "engine/base/philox.hpp"
#include "engine/data/epoch_order.hpp"

namespace keelson {
namespace {

constexpr double least_confidence = 0.7;  // KAKURENBO's threshold
constexpr std::string_view rule_names[] = {"none", "infobatch", "random", "kakurenbo", "forgetting", "el2n"};

/// The first of the last epochs, which take all samples: at least an eighth of them, as InfoBatch's delta = 0.875.
std::int64_t first_whole_epoch(std::int64_t epochs) { return epochs * 7 / 8; }

/// Epochs that only observe: at least the first one, which visits every sample.
std::int64_t observed_epochs(PruneRule rule, std::int64_t epochs) {
  if (rule == PruneRule::forgetting) return std::max<std::int64_t>(2, (epochs + 3) / 4);
  if (rule == PruneRule::el2n) return std::max<std::int64_t>(1, (epochs + 9) / 10);
  return 1;
}

/// The arrays of a table, with their names in checkpoints.
template <class Table, class Visit>
void visit_arrays(Table& t, Visit&& visit) {
  visit("loss", t.loss);
  visit("visits", t.visits);
  visit("used", t.used);
  visit("known", t.known);
  visit("learned", t.learned);
  visit("forgotten", t.forgotten);
  visit("error", t.error);
}

}  // namespace

std::string_view to_string(PruneRule rule) { return rule_names[static_cast<std::size_t>(rule)]; }

std::vector<std::string> prune_rule_names() { return {std::begin(rule_names), std::end(rule_names)}; }

PruneRule parse_prune_rule(const std::string& name) {
  const auto found = std::ranges::find(rule_names, name);
  if (found == std::end(rule_names))
    refuse("no rule for leaving samples out is called '{}'; expected {}", name, fmt::join(rule_names, ", "));
  return static_cast<PruneRule>(found - std::begin(rule_names));
}

std::string PruneOptions::to_string() const {
  return enabled() ? fmt::format("{} {}", keelson::to_string(rule), r()) : "none";
}

SamplePruning::SamplePruning(const PruneOptions& options, std::int64_t samples, std::uint64_t seed, std::int64_t epochs,
                             bool shuffle, bool probabilities)
    : options_(options), seed_(seed), epochs_(epochs), shuffle_(shuffle), probabilities_(probabilities) {
  if (!options.enabled()) return;
  if (!(options.r() < 1)) refuse("a part of {} of the samples was to be left out; expected 0 to below 1", options.r());
  weights_.resize(static_cast<std::size_t>(samples));
  forget();
}

void SamplePruning::forget() {
  visit_arrays(table_, [&](const char*, std::vector<float>& a) { a.assign(count(), 0.0f); });
  std::ranges::fill(weights_, 1.0f);
  for (auto* a : {&losses_, &seen_, &mine_, &counted_}) a->assign(count(), 0.0f);
}

std::vector<float> SamplePruning::scores() const {
  std::vector<float> all = table_.loss;
  for (std::size_t i = 0; i < count(); ++i) {
    if (options_.rule == PruneRule::el2n)
      all[i] = table_.error[i] / static_cast<float>(observed_epochs(options_.rule, epochs_));
    // A visit more than there can be.
    if (options_.rule == PruneRule::forgetting)
      all[i] = table_.learned[i] > 0 ? table_.forgotten[i] : static_cast<float>(epochs_);
  }
  return all;
}

void SamplePruning::begin_epoch(std::int64_t epoch) {
  std::ranges::fill(weights_, 1.0f);
  if (epoch >= observed_epochs(options_.rule, epochs_) && epoch < first_whole_epoch(epochs_)) choose(epoch);
  if (std::ranges::find_if(weights_, [](float w) { return w > 0; }) == weights_.end())
    std::ranges::fill(weights_, 1.0f);  // an epoch has samples
  order_samples(epoch);
}

void SamplePruning::choose(std::int64_t epoch) {
  const double r = options_.r();
  const philox::Key key{seed_, philox::stream_of("sample pruning"), static_cast<std::uint64_t>(epoch)};
  switch (options_.rule) {
    case PruneRule::none:
      return;
    case PruneRule::random:
      for (std::size_t i = 0; i < count(); ++i)
        if (static_cast<double>(philox::uniform(key, i)) < r) weights_[i] = 0;
      return;
    case PruneRule::infobatch: {
      double sum = 0, known = 0;
      for (std::size_t i = 0; i < count(); ++i) {
        sum += table_.visits[i] > 0 ? static_cast<double>(table_.loss[i]) : 0;
        known += table_.visits[i] > 0 ? 1 : 0;
      }
      const double mean = known > 0 ? sum / known : 0;
      for (std::size_t i = 0; i < count(); ++i) {
        if (table_.visits[i] == 0 || !(static_cast<double>(table_.loss[i]) < mean)) continue;
        weights_[i] = static_cast<double>(philox::uniform(key, i)) < r ? 0.0f : static_cast<float>(1 / (1 - r));
      }
      return;
    }
    case PruneRule::kakurenbo:
      return leave_out_lowest(table_.loss, probabilities_ ? least_confidence : 0);
    case PruneRule::forgetting:
    case PruneRule::el2n:
      return leave_out_lowest(scores(), 0);
  }
}

/// Leaves out the part r of all samples: those with the lowest ranking, at equal ranking those with the lowest loss.
/// Samples of which the class has a lower probability than `confidence` are kept, without others in their place.
void SamplePruning::leave_out_lowest(const std::vector<float>& ranking, double confidence) {
  std::vector<std::size_t> order(count());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&](std::size_t i) { return table_.visits[i] == 0; });
  const auto before = [&](std::size_t a, std::size_t b) {
    if (ranking[a] != ranking[b]) return ranking[a] < ranking[b];
    return table_.loss[a] != table_.loss[b] ? table_.loss[a] < table_.loss[b] : a < b;
  };
  const auto wanted = static_cast<std::size_t>(options_.r() * static_cast<double>(count()));
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(wanted, order.size()));
  std::ranges::nth_element(order, end, before);
  for (auto i = order.begin(); i != end; ++i)
    if (confidence == 0 || std::exp(-static_cast<double>(table_.loss[*i])) >= confidence) weights_[*i] = 0;
}

void SamplePruning::order_samples(std::int64_t epoch) {
  epoch_ = epoch;
  EpochSamples s{.order = {}, .weights = weights_, .represented = static_cast<std::int64_t>(count())};
  const EpochOrder order(s.represented, seed_, epoch);
  for (std::int64_t place = 0; place < s.represented; ++place) {
    const std::int64_t sample = shuffle_ ? order[place] : place;
    if (weights_[static_cast<std::size_t>(sample)] > 0) s.order.push_back(sample);
  }
  // A rule without weights does not try to replace the gradients of the samples that it leaves out.
  if (options_.rule != PruneRule::infobatch) s.represented = s.size();
  samples_ = std::make_shared<const EpochSamples>(std::move(s));
}

std::vector<std::int64_t> SamplePruning::left_out() const {
  std::vector<std::int64_t> all;
  for (std::size_t i = 0; i < count(); ++i)
    if (weights_[i] == 0) all.push_back(static_cast<std::int64_t>(i));
  return all;
}

bool SamplePruning::evaluates_left_out() const { return options_.rule == PruneRule::kakurenbo; }

double SamplePruning::rate_factor() const {
  if (options_.rule != PruneRule::kakurenbo) return 1;
  return static_cast<double>(count()) / static_cast<double>(samples_->size());
}

void SamplePruning::record(std::span<const std::int64_t> samples, std::span<const float> losses, bool counts) {
  KEELSON_EXPECT(samples.size() <= losses.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto sample = static_cast<std::size_t>(samples[i]);
    mine_.at(sample) += losses[i];
    counted_[sample] += counts ? 1.0f : 0.0f;
  }
}

std::vector<float> SamplePruning::gather(Communicator* ranks) const {
  std::vector<float> all = mine_;
  all.insert(all.end(), counted_.begin(), counted_.end());
  if (ranks && ranks->size() > 1) ranks->on_host().allreduce(all.data(), all.size(), Reduction::sum);
  return all;
}

void SamplePruning::absorb(const std::vector<float>& gathered) {
  KEELSON_EXPECT(gathered.size() == 2 * count());
  for (std::size_t i = 0; i < count(); ++i) {
    losses_[i] += gathered[i];
    seen_[i] += gathered[count() + i];
  }
  std::ranges::fill(mine_, 0.0f);
  std::ranges::fill(counted_, 0.0f);
}

void SamplePruning::end_epoch() {
  double sum = 0, visited = 0;
  for (std::size_t i = 0; i < count(); ++i) {
    if (seen_[i] == 0) continue;
    sum += static_cast<double>(losses_[i]);
    ++visited;
  }
  const double mean = visited > 0 ? sum / visited : 0;
  const bool observes = options_.rule == PruneRule::el2n && epoch_ < observed_epochs(options_.rule, epochs_);
  for (std::size_t i = 0; i < count(); ++i) {
    if (seen_[i] == 0) continue;
    const auto loss = static_cast<double>(losses_[i]);
    const double probability = std::exp(-loss);
    const bool learned = probabilities_ ? probability > 0.5 : loss < mean;
    if (table_.known[i] > 0 && !learned) ++table_.forgotten[i];
    if (learned) ++table_.learned[i];
    table_.known[i] = learned ? 1.0f : 0.0f;
    table_.loss[i] = losses_[i];
    ++table_.visits[i];
    if (weights_[i] > 0) ++table_.used[i];
    const double error = probabilities_ ? std::sqrt(2.0) * (1 - probability) : std::sqrt(std::max(0.0, loss));
    if (observes) table_.error[i] += static_cast<float>(error);
  }
  std::ranges::fill(losses_, 0.0f);
  std::ranges::fill(seen_, 0.0f);
}

std::map<std::string, std::vector<float>> SamplePruning::state(bool within_epoch) const {
  std::map<std::string, std::vector<float>> all;
  visit_arrays(table_, [&](const char* name, const std::vector<float>& a) { all[name] = a; });
  if (!within_epoch) return all;
  all["weight"] = weights_;
  all["loss_of_epoch"] = losses_;
  all["visits_of_epoch"] = seen_;
  return all;
}

void SamplePruning::restore(const std::map<std::string, std::vector<float>>& arrays, bool within_epoch,
                            std::int64_t epoch, const std::string& what) {
  forget();
  const auto take = [&](const std::string& name, std::vector<float>& to, bool counts) {
    const auto found = arrays.find(name);
    const std::size_t length = found == arrays.end() ? 0 : found->second.size();
    if (length != count())
      refuse("{}: it knows {} '{}' of samples, but the training data has {} samples: resume with the same data", what,
             length, name, count());
    const auto bad =
        std::ranges::find_if(found->second, [&](float v) { return !std::isfinite(v) || (counts && v < 0); });
    if (bad != found->second.end())
      refuse("{}: '{}' of sample {} is {}; no run has written this: use an earlier checkpoint", what, name,
             bad - found->second.begin(), *bad);
    to = found->second;
  };
  if (!arrays.empty()) {
    visit_arrays(table_, [&](const std::string& name, std::vector<float>& a) { take(name, a, name != "loss"); });
    if (within_epoch) {
      take("weight", weights_, true);
      take("loss_of_epoch", losses_, false);
      take("visits_of_epoch", seen_, true);
    }
  }
  if (within_epoch) order_samples(epoch);
}

}  // namespace keelson
