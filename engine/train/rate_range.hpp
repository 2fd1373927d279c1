#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/train/trainer.hpp"

namespace keelson {

/// Which learning rates find_rates() tries.
struct RateRangeOptions {
  double least = 1e-7, most = 10;  ///< the first rate, and that of the last step
  std::int64_t steps = 100;        ///< with rates in a geometric series
  /// Part of the smoothed loss that a step takes over from the one before: an exponential mean, without bias towards
  /// its beginning.
  double smoothing = 0.9;
  /// The search ends early where the smoothed loss is above the least one by more than (this - 1) times its size: above
  /// so many times the least, if losses are positive.
  double stop_at = 4;
  /// Parameters and moments are afterwards as before, to the bit. The search begins with these parameters, and with
  /// moments of zero. Throws InputError where a rank has a part of them alone.
  bool keep_parameters = true;
};

/// One step of the search.
struct RatePoint {
  double rate = 0;      ///< learning rate of the step
  double loss = 0;      ///< of the step's samples, before the step moves the parameters
  double smoothed = 0;  ///< RateRangeOptions::smoothing
};

/// What the search has found.
struct RateRange {
  std::vector<RatePoint> points;   ///< in the order of the steps
  bool diverged = false;           ///< ended early: the loss rose too far, or was not finite any more
  bool interrupted = false;        ///< ended early by TrainerOptions::interrupted
  std::optional<double> steepest;  ///< rate at which the smoothed loss falls fastest; none: it never falls
  std::optional<double> minimum;  ///< rate with the least smoothed loss, where training begins to fail; none: no points
  /// The rate to begin with: `steepest`. Others take a tenth of `minimum`.
  std::optional<double> suggestion() const { return steepest; }
};

/// Finds `steepest` and `minimum` of the points: without the first tenth of the points (at most 10), whose smoothed
/// loss has few terms, and without the last one. The loss falls at a point as it falls from a twentieth of all points
/// before the point to a twentieth behind it.
void suggest_rates(RateRange& range);

/// A learning-rate range test (Smith 2017, arXiv 1506.01186): trains for some steps, each with a larger rate than the
/// step before, on the training data in the order of a training. Nothing is validated or written, the network does not
/// change, and epochs have all samples. `on_point` is called after each step on every rank; may be empty. All ranks
/// return the same. The arguments are those of Trainer. Throws as Trainer, but not for a loss that is not finite;
/// InputError for rates that do not rise from above 0, fewer than 3 steps, a smoothing outside [0, 1), a factor of at
/// most 1, and training that is not synchronous. Collective.
RateRange find_rates(const Graph& graph, Parameters& parameters, const Dataset& training, Communicator* ranks,
                     TrainerOptions options, const RateRangeOptions& range,
                     const std::function<void(const RatePoint&)>& on_point = {});

}  // namespace keelson
