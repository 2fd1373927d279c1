#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/train/fed_executor.hpp"
#include "engine/train/metrics/metric.hpp"
#include "engine/train/sample_unit.hpp"

namespace keelson {

namespace detail {
class EvaluatedBatch;
}

/// What an evaluation measures.
struct MetricOptions {
  std::string prediction = "prediction";  ///< graph output (rows_per_sample * N, ...) that metrics read
  std::string target = "y";               ///< data field that metrics compare it with
  /// All metrics are computed in one pass. The first metric decides which network is better; without metrics the loss
  /// decides.
  std::vector<std::shared_ptr<Metric>> metrics;
  double units = 0;  ///< units in the data set; 0: samples * SampleUnit::per_sample

  /// The first metric; null without metrics.
  const Metric* judge() const { return metrics.empty() ? nullptr : metrics[0].get(); }
};

/// How a network is evaluated.
struct EvaluatorOptions {
  std::int64_t batch = 1;                 ///< samples per batch and replica
  std::int64_t micro_batches = 1;         ///< forward passes of a batch, as PlanOptions::micro_batch_count
  ProcessGrid::Extents replica;           ///< as TrainerOptions::replica; each sample counts once
  std::vector<std::string> stage_starts;  ///< as PlanOptions::stage_starts
  bool whole_parameters = false;          ///< as PlanOptions; so they are on ranks that survive losses, too
  Precision precision = Precision::fp32;  ///< as in PlanOptions
  bool one_by_one = false;                ///< samples are computed one at a time, as in ExchangeOptions::reproducible
  LoaderThreads threads;                  ///< that decode samples
  CacheOptions cache;                     ///< what each rank keeps of the samples that it evaluates
  SampleUnit unit;                        ///< losses are means over these units
  MetricOptions evaluation;               ///< what is measured
};

/// Results of a network on a data set, the same on all ranks but for the time.
struct Evaluation {
  std::int64_t samples = 0;           ///< in the data set
  double loss = 0;                    ///< mean over the units (SampleUnit) of all samples
  double metric = 0;                  ///< Metric::value() of the first metric; without metrics the loss
  std::vector<double> metric_values;  ///< Metric::values() of the first metric
  double seconds = 0;                 ///< wall time on this rank
};

/// Evaluates a network on a data set, over all ranks. The evaluator's plan shares the parameters with the plan of the
/// training. Losses and metrics are added up batch by batch, so memory does not depend on the number of samples. The
/// metric Predictions collects predictions for other purposes. Sums over batches are exact: with the same batch per
/// rank, or with samples one by one, the result has the same bits on any number of ranks with as many threads each.
class Evaluator {
 public:
  /// `communicator` null: this rank alone. All references must outlive the evaluator. Throws InputError on all ranks if
  /// the ranks have different data. Collective.
  Evaluator(const Graph& graph, Parameters& parameters, const Dataset& dataset, Communicator* communicator,
            const EvaluatorOptions& options);
  ~Evaluator();
  /// Evaluates all samples once. The metrics keep their values until the next run(). Throws Error on all ranks if the
  /// loss or the first metric is not finite. Collective.
  Evaluation run();
  std::int64_t samples() const { return dataset_.size(); }  ///< in the data set
  /// Samples that this rank has read in all evaluations.
  SampleCounts counts() const;
  /// The executor of the current network; valid until set_network(). Throws Error after release_network().
  const Executor& executor() const;

  /// Before FaultTolerance::shrink() of the group that the evaluator was made with: destroys what belongs to the group.
  void release_group();
  /// Afterwards: deals the samples to these ranks, each of which has this room for a cache. Throws as set_network().
  /// Collective.
  void regroup(const Graph& graph, Parameters& parameters, Communicator* communicator, const CacheOptions& cache);
  /// Destroys plan and executor before the network changes, so that the memory of the parameters can be freed.
  void release_network();
  /// Makes plan and executor for another network. `parameters` are in the same context as before. Throws InputError for
  /// a network that does not fit the data.
  void set_network(const Graph& graph, Parameters& parameters);

 private:
  void make_grid();
  void drop_loader();
  void deal_samples();
  void prepare_metrics();
  /// Queues the samples that the plan computes at once (one, or all) of the loader's batch number `step`.
  void launch(const Batch& batch, std::int64_t micro_batch, detail::EvaluatedBatch& into, std::int64_t step);
  std::int64_t micro_batches(const Batch& batch) const;
  double retire(detail::EvaluatedBatch& batch);
  std::optional<std::int64_t> first_of_stages(std::optional<std::int64_t> step) const;
  std::string first_non_finite(std::int64_t step);
  void require_finite(const Evaluation& e, std::string culprit) const;

  const Dataset& dataset_;
  Communicator* communicator_;
  EvaluatorOptions options_;
  Context& context_;
  std::optional<ProcessGrid> replicas_;  ///< if replicas have several ranks
  FieldRows rows_;                       ///< of the data's fields that the plan reads on this rank
  Shape prediction_shape_;               ///< of one sample
  bool counts_ = true;          ///< losses and metrics; else another rank of the replica counts the same samples
  SampleCounts counts_before_;  ///< of earlier loaders
  std::optional<Loader> loader_;
  std::optional<FedExecutor> network_;  ///< ends before the batches that it reads
  MetricSetup setup_;
  bool reads_predictions_ = false;
  std::size_t target_field_ = 0;
  /// Batches in turn: while the device evaluates one, the host takes the results of the one before.
  std::unique_ptr<detail::EvaluatedBatch> batches_[2];
};

}  // namespace keelson
