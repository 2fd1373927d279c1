#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/loader.hpp"
#include "engine/graph/plan.hpp"
#include "engine/train/input_pipeline.hpp"
#include "engine/train/metric_spec.hpp"
#include "engine/train/sample_unit.hpp"

namespace keelson {

struct EvaluatorOptions {
  std::int64_t batch = 1;                 ///< per rank
  Precision precision = Precision::fp32;  ///< as in PlanOptions
  int threads = 1, prefetch = 2;
  std::vector<int> cpus;                  ///< of the decoding threads, as in LoaderOptions
  std::string prediction = "prediction";  ///< graph output (rows_per_sample * N, F); the rows of a sample are averaged
  std::string target = "y";               ///< data field (F)
  MetricSpec metric;
  SampleUnit unit;   ///< losses are means over these
  double units = 0;  ///< so many are in the data set; 0: samples * unit.per_sample
};

/// How well a network does on a data set, the same on all ranks.
struct Evaluation {
  std::int64_t samples = 0;
  double loss = 0;             ///< mean over the samples' units
  double metric = 0;           ///< mean over targets of `errors`, or, if the metric does not compare, of the loss
  std::vector<double> errors;  ///< the metric per target; this and the rest only if the metric compares
  std::vector<float> predicted,
      truth;  ///< (samples, F), in the data set's order, as the network sees them; on rank 0 only
  double seconds = 0;

  /// The metric per target of always predicting `mean` (as the network sees it) for these samples; on rank 0 only.
  std::vector<double> baseline(const MetricSpec& metric, const std::vector<double>& mean) const;
  /// Mean of `truth` per target; on rank 0 only.
  std::vector<double> truth_mean() const;
};

/// Evaluates a network on a data set, over all ranks; its plan shares `parameters` with the training's.
/// Errors of predictions are summed in the data set's order, so they do not depend on the number of ranks.
class Evaluator {
 public:
  /// `communicator` null: alone. Throws InputError on all ranks if they have different data. Collective.
  Evaluator(const Graph& graph, Parameters& parameters, const Dataset& dataset, Communicator* communicator,
            const EvaluatorOptions& options);
  /// Throws Error, on all ranks, for a loss or a metric that is not finite.
  Evaluation run();
  const Plan& plan() const { return plan_; }

 private:
  void find_targets();
  void collect(const Batch& batch, std::vector<float>& rows);
  void compare(std::vector<float> rows, Evaluation& e);
  void require_finite(const Evaluation& e, std::string culprit) const;

  const Dataset& dataset_;
  Communicator* communicator_;
  EvaluatorOptions options_;
  Context& context_;
  Plan plan_;
  Loader loader_;
  InputPipeline feed_;  ///< ends before the batches that it reads
  std::size_t target_field_ = 0;
  std::int64_t targets_ = 0, rows_per_sample_ = 1;
  std::vector<float> host_;  ///< the prediction of a batch
};

}  // namespace keelson
