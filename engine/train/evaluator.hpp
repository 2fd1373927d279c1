#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/data/loader.hpp"
#include "engine/execute/executor.hpp"
#include "engine/train/input_pipeline.hpp"
#include "engine/train/metric.hpp"
#include "engine/train/sample_unit.hpp"

namespace keelson {

struct EvaluatorOptions {
  std::int64_t batch = 1;                 ///< per rank
  Precision precision = Precision::fp32;  ///< as in PlanOptions
  int threads = 1, prefetch = 2;
  std::vector<int> cpus;                  ///< of the decoding threads, as in LoaderOptions
  std::string prediction = "prediction";  ///< graph output (rows_per_sample * N, ...) that metrics read
  std::string target = "y";               ///< data field that metrics compare it with
  /// All are made in one pass. The first one judges the network; if there is none, the loss does.
  std::vector<std::shared_ptr<Metric>> metrics;
  SampleUnit unit;   ///< losses are means over these
  double units = 0;  ///< so many are in the data set; 0: samples * unit.per_sample

  const Metric* judge() const { return metrics.empty() ? nullptr : metrics[0].get(); }
};

/// How well a network does on a data set, the same on all ranks.
struct Evaluation {
  std::int64_t samples = 0;
  double loss = 0;                    ///< mean over the samples' units
  double metric = 0;                  ///< of the first metric, or the loss
  std::vector<double> metric_values;  ///< Metric::values() of the first metric
  double seconds = 0;
};

/// Evaluates a network on a data set, over all ranks; its plan shares `parameters` with the training's. Losses and
/// metrics are added up batch by batch, so memory does not depend on the number of samples; what predictions are needed
/// for besides, a metric may collect (Predictions). Sums over batches are exact: with the same batch per rank the
/// result has the same bits on any number of ranks.
class Evaluator {
 public:
  /// `communicator` null: alone. Throws InputError on all ranks if they have different data. Collective.
  Evaluator(const Graph& graph, Parameters& parameters, const Dataset& dataset, Communicator* communicator,
            const EvaluatorOptions& options);
  /// Leaves the values of all metrics in them. Throws Error, on all ranks, for a loss or a first metric that is not
  /// finite. Collective.
  Evaluation run();
  /// Until set_network(). Throws Error after release_network().
  const Executor& executor() const;

  /// For a network that changes: lets go of plan and executor, so that the parameters' memory may go, then makes those
  /// of another network. `parameters` are in the same context as before. Throws InputError for a network that does not
  /// fit the data.
  void release_network();
  void set_network(const Graph& graph, Parameters& parameters);

 private:
  void prepare_metrics();
  void update_metrics(const Batch& batch, double loss);
  void require_finite(const Evaluation& e, std::string culprit) const;

  const Dataset& dataset_;
  Communicator* communicator_;
  EvaluatorOptions options_;
  Context& context_;
  std::unique_ptr<Executor> executor_;
  Loader loader_;
  std::optional<InputPipeline> feed_;  ///< ends before the batches that it reads
  MetricSetup setup_;
  bool reads_predictions_ = false;
  std::size_t target_field_ = 0;
  std::vector<float> host_;  ///< the prediction of a batch
};

}  // namespace keelson
