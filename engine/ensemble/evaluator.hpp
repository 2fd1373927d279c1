#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/ensemble/combination.hpp"
#include "engine/train/evaluator.hpp"

namespace keelson::ensemble {

/// How the members of an ensemble are evaluated.
struct EnsembleEvaluatorOptions {
  std::int64_t batch = 1;                 ///< samples per batch and rank
  Precision precision = Precision::fp32;  ///< as in PlanOptions
  LoaderThreads threads;                  ///< that decode samples
  std::string prediction = "prediction";  ///< graph output of all members
  std::string variance;  ///< graph output with the variances of the predictions, of their shape; empty: there is none
  std::string target = "y";  ///< data field that it is compared with
};

/// A network of an ensemble. Members may have different designs.
struct EnsembleMember {
  const Graph* graph = nullptr;      ///< with the outputs of the options; all members' outputs have one shape
  Parameters* parameters = nullptr;  ///< of this graph, in one context for all members
};

/// Evaluates several networks on one data set, over all ranks. Each sample is read and decoded once, and goes through
/// all members; each rank evaluates a part of the samples. Memory: that of all members' plans and parameters. The sums
/// are exact, so the result has the same bits on any number of ranks with the same batch per rank.
class EnsembleEvaluator {
 public:
  /// `communicator` null: this rank alone. All references must outlive the evaluator. Throws InputError on all ranks if
  /// the ranks have different data, for less samples than ranks, and for members whose predictions have other shapes.
  /// Collective.
  EnsembleEvaluator(const std::vector<EnsembleMember>& members, const Dataset& data, Communicator* communicator,
                    const EnsembleEvaluatorOptions& options);
  ~EnsembleEvaluator();

  /// Metrics of one network, as EvaluatorOptions has them; a MetricBatch::loss is 0.
  using Metrics = std::vector<std::shared_ptr<Metric>>;
  /// Evaluates all samples once. `of_ensemble` see what the ensemble predicts (Combination::update()), `of_members`
  /// what each member does; both may be empty. Collective.
  void run(Combination& combination, const Metrics& of_ensemble = {}, const std::vector<Metrics>& of_members = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keelson::ensemble
