#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/data/dataset.hpp"

namespace keelson {

/// The network and the data set of an evaluation, as a metric needs to know them.
struct MetricSetup {
  std::string data;             ///< the data set, for messages
  std::int64_t samples = 0;     ///< in the data set
  double units = 0;             ///< units in the data set; losses are means over units (SampleUnit)
  std::string prediction_name;  ///< name of the graph output
  Shape prediction;             ///< of one sample: (rows, ...); empty if the metric reads no predictions
  Field target;                 ///< the data field; its name is empty if the metric reads no predictions
};

/// One batch of an evaluation. The arrays are in host memory and valid during update().
struct MetricBatch {
  std::int64_t count = 0;                 ///< samples of this rank in the batch
  const std::int64_t* indices = nullptr;  ///< (count): indices of the samples in the data set
  double loss = 0;                        ///< sum of the losses of these samples
  /// (count, MetricSetup::prediction), f32, plain; null if the metric reads no predictions.
  const float* predictions = nullptr;
  /// (count, MetricSetup::target), as Dataset::read writes them; null if the metric reads no predictions.
  const void* targets = nullptr;
};

/// A number that says how good a network is, computed batch by batch. The interface is that of torchmetrics
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
  virtual std::string name() const = 0;  ///< for logs and reports: "MAE"
  /// A value of the metric as text for people, by default with 4 decimals.
  virtual std::string text(double value) const { return fmt::format("{:.4f}", value); }
  virtual bool higher_is_better() const { return false; }  ///< true for an accuracy, false for an error
  /// Whether value a is better than value b. Equal values are not better.
  bool better(double a, double b) const { return higher_is_better() ? a > b : a < b; }
  /// Whether update() reads predictions and targets. If so, each batch's predictions are copied to the host.
  virtual bool reads_predictions() const { return true; }
  /// The metric for a mean loss per unit. No value for metrics that are not a function of the mean loss alone.
  virtual std::optional<double> of_loss(double /*mean_loss*/) const { return std::nullopt; }

  /// Begins an evaluation. Throws InputError for predictions or targets of a shape or type that the metric does not
  /// take.
  virtual void reset(const MetricSetup& setup) = 0;
  /// Adds one batch of this rank's samples to the sums. Makes no collective calls.
  virtual void update(const MetricBatch& batch) = 0;
  /// Adds up the sums of all ranks, on all ranks. Called once, after the last update(). `communicator` null: this rank
  /// alone. Collective.
  virtual void reduce(Communicator* communicator) = 0;
  /// One number for the network, the same on all ranks. Valid after reduce().
  virtual double value() const = 0;
  /// The parts of value(), for example one per target or class, the same on all ranks. May be empty. Valid after
  /// reduce().
  virtual std::vector<double> values() const { return {}; }
  /// Names of values() for reports, one for each; may be empty: reports then do not show them. The same at any time.
  virtual std::vector<std::string> value_names() const { return {}; }
};

}  // namespace keelson
