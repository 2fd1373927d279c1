#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/data/dataset.hpp"

namespace keelson {

/// What a metric is told of the network and of the data set before they are evaluated.
struct MetricSetup {
  std::string data;             ///< the data set, for messages
  std::int64_t samples = 0;     ///< in the data set
  double units = 0;             ///< in the data set; losses are means over units (SampleUnit)
  std::string prediction_name;  ///< of the graph output
  Shape prediction;             ///< of one sample: (rows, ...); empty if the metric reads no predictions
  Field target;                 ///< the data field; its name is empty if the metric reads no predictions
};

/// One batch of an evaluation. The arrays are in host memory and valid during update().
struct MetricBatch {
  std::int64_t count = 0;                 ///< samples of this rank
  const std::int64_t* indices = nullptr;  ///< (count): places in the data set
  double loss = 0;                        ///< sum over the samples
  /// (count, MetricSetup::prediction), f32, plain; null if the metric reads no predictions.
  const float* predictions = nullptr;
  /// (count, MetricSetup::target), as Dataset::read writes them; null if the metric reads no predictions.
  const void* targets = nullptr;
};

/// A number that tells how good a network is, made batch by batch: the interface of torchmetrics
/// (https://lightning.ai/docs/torchmetrics). An evaluation calls
///
///   reset(setup);  update(batch) ...;  reduce(communicator);  value(), values()
///
/// A metric keeps sums, e.g. of errors or of the cells of a confusion matrix, so that its memory does not depend on the
/// number of samples. Each rank updates with its own part of the samples; reduce() adds up the ranks' sums. Sums of
/// whole numbers and ExactSum (engine/base/exact_sum.hpp) give the same value on any number of ranks.
class Metric {
 public:
  virtual ~Metric() = default;
  virtual std::string name() const = 0;  ///< "MAE"
  /// A value of the metric for people.
  virtual std::string text(double value) const { return fmt::format("{:.4f}", value); }
  virtual bool higher_is_better() const { return false; }
  bool better(double a, double b) const { return higher_is_better() ? a > b : a < b; }
  /// Whether update() reads predictions and targets, which then are copied from the device.
  virtual bool reads_predictions() const { return true; }
  /// The metric of a mean loss, for metrics that are a function of the mean loss alone.
  virtual std::optional<double> of_loss(double /*mean_loss*/) const { return std::nullopt; }

  /// Begins an evaluation. Throws InputError for predictions or targets of a shape or type that the metric does not
  /// take.
  virtual void reset(const MetricSetup& setup) = 0;
  virtual void update(const MetricBatch& batch) = 0;
  /// Makes the sums those of all ranks, on all ranks. Once after the last update(). `communicator` null: alone.
  /// Collective.
  virtual void reduce(Communicator* communicator) = 0;
  /// One number for the network; the same on all ranks.
  virtual double value() const = 0;
  /// The parts of value(), e.g. one per target or class; the same on all ranks. May be empty.
  virtual std::vector<double> values() const { return {}; }
};

}  // namespace keelson
