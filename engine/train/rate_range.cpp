#include "engine/train/rate_range.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"

namespace keelson {
namespace {

void require_range(const RateRangeOptions& r, const TrainerOptions& o) {
  if (!(r.least > 0 && r.most > r.least && std::isfinite(r.most)))
    refuse("learning rates from {} to {}: expected rates above 0, of which the second one is the larger", r.least,
           r.most);
  if (r.steps < 3) refuse("a search for learning rates in {} steps: expected at least 3", r.steps);
  if (!(r.smoothing >= 0 && r.smoothing < 1))
    refuse("a smoothing of {}: expected a number from 0 (none) to below 1", r.smoothing);
  if (!(r.stop_at > 1)) refuse("an end at {} times the least loss: expected a number above 1", r.stop_at);
  if (o.sync.kind != SyncMode::Kind::synchronous)
    refuse(
        "a search for learning rates with synchronization {}: the loss of a step would not follow from the rate of the "
        "step before. Give --sync synchronous",
        o.sync.to_string());
}

/// Values and moments of all parameters, as they were.
class KeptParameters {
 public:
  KeptParameters(Parameters& parameters, std::size_t moments) : parameters_(parameters) {
    if (parameters.are_spread())
      refuse(
          "the parameters are in parts on several ranks, so none of them can keep a copy while learning rates are "
          "tried: "
          "search without shards of the optimizer");
    for (Parameter& p : parameters.all()) {
      const int count = p.kind == ParameterKind::trained ? static_cast<int>(moments) : 0;
      for (int which = -1; which < count; ++which) {
        std::vector<float> zeros(static_cast<std::size_t>(p.shape.elements()));
        const bool is_new = which >= static_cast<int>(p.moments.size());
        arrays_.push_back({&p, which, is_new ? zeros : parameters.get(p, which)});
        if (which >= 0) parameters.set(p, zeros, which);
      }
    }
  }
  void restore() {
    for (const Array& a : arrays_) parameters_.set(*a.of, a.values, a.which);
  }

 private:
  struct Array {
    Parameter* of;
    int which;  ///< -1: the value; else a moment
    std::vector<float> values;
  };
  Parameters& parameters_;
  std::vector<Array> arrays_;
};

/// Collects the losses of steps.
class RatePoints final : public TrainObserver {
 public:
  RatePoints(const RateRangeOptions& options, RateRange& range, const std::function<void(const RatePoint&)>& on_point)
      : options_(options), range_(range), on_point_(on_point) {}

  void on_step(const RunState&, const StepRecord& r) override {
    if (range_.diverged) return;
    mean_ = options_.smoothing * mean_ + (1 - options_.smoothing) * r.loss;
    weight_ = options_.smoothing * weight_ + (1 - options_.smoothing);
    const RatePoint point{r.learning_rate, r.loss, mean_ / weight_};
    range_.points.push_back(point);
    least_ = std::min(least_, point.smoothed);
    range_.diverged = point.smoothed > least_ + (options_.stop_at - 1) * std::abs(least_);
    if (on_point_) on_point_(point);
  }

 private:
  const RateRangeOptions& options_;
  RateRange& range_;
  const std::function<void(const RatePoint&)>& on_point_;
  double mean_ = 0, weight_ = 0, least_ = std::numeric_limits<double>::infinity();
};

/// A training of nothing but these steps.
TrainerOptions for_search(TrainerOptions o, const RateRangeOptions& r) {
  const double ratio = r.most / r.least, last = static_cast<double>(r.steps - 1);
  o.learning_rate = [=](const RunState& s) {
    return r.least * std::pow(ratio, std::min(static_cast<double>(s.step), last) / last);
  };
  o.max_steps = o.epochs = r.steps;
  o.target = o.time_limit = 0;
  o.checkpoints = {};
  o.evaluation = {};
  o.prune = {};
  o.change_network = nullptr;
  o.make_network = nullptr;
  o.noise_scale = 0;
  o.profiled_steps = 0;
  o.restart_on_loss = false;
  return o;
}

void search(Trainer& trainer, RatePoints& points, RateRange& range) {
  trainer.observe({&points});
  try {
    while (!range.diverged && trainer.step()) {
    }
    trainer.wait();
  } catch (const LossNotFinite&) {
    if (range.points.empty()) throw;  // no rate has moved the parameters yet: data or network are the cause
    range.diverged = true;
  }
  range.interrupted = trainer.stop_reason() == StopReason::interrupted;
}

}  // namespace

void suggest_rates(RateRange& range) {
  range.steepest.reset();
  range.minimum.reset();
  const auto& points = range.points;
  // Differences of neighbours would be those of two batches of samples, more than those of two rates.
  const std::size_t count = points.size(), first = std::min<std::size_t>(10, count / 10),
                    reach = std::max<std::size_t>(1, count / 20);
  double least = std::numeric_limits<double>::infinity(), slope = 0;
  for (std::size_t i = first; i + 1 < count; ++i) {
    if (points[i].smoothed < least) {
      least = points[i].smoothed;
      range.minimum = points[i].rate;
    }
    if (i < reach || i + reach >= count) continue;
    const double here = points[i + reach].smoothed - points[i - reach].smoothed;
    if (here < slope) {
      slope = here;
      range.steepest = points[i].rate;
    }
  }
}

RateRange find_rates(const Graph& graph, Parameters& parameters, const Dataset& training, Communicator* ranks,
                     TrainerOptions options, const RateRangeOptions& r,
                     const std::function<void(const RatePoint&)>& on_point) {
  require_range(r, options);
  if (ranks && ranks->size() > 1)
    compare_values(*ranks,
                   {{"the rates", fmt::format("{} to {}", r.least, r.most)},
                    {"the steps", fmt::format("{}", r.steps)},
                    {"smoothing and end", fmt::format("{}, {}", r.smoothing, r.stop_at)}},
                   "options of a search for learning rates");
  RateRange range;
  RatePoints points(r, range, on_point);
  std::optional<KeptParameters> before;
  if (r.keep_parameters) before.emplace(parameters, options.moments().size());
  try {
    Trainer trainer(graph, parameters, training, nullptr, ranks, for_search(std::move(options), r));
    search(trainer, points, range);
  } catch (...) {
    if (before) before->restore();
    throw;
  }
  if (before) before->restore();
  suggest_rates(range);
  return range;
}

}  // namespace keelson
