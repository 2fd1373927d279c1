#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/train/evaluator.hpp"
#include "engine/train/metrics/metric.hpp"
#include "engine/train/records.hpp"

namespace keelson::python {

/// An Evaluation with the values of all metrics, not only of the first metric.
struct Evaluated {
  Evaluation evaluation;
  std::map<std::string, double> metrics;              ///< Metric::value() by name
  std::map<std::string, std::vector<double>> values;  ///< Metric::values() by name
};

/// An EpochRecord with the values of all metrics.
struct EpochResult : EpochRecord {
  std::map<std::string, double> metrics;  ///< Metric::value() by name; empty without validation
  double wall_seconds() const { return seconds.total() + validation_seconds; }  ///< of training and validation
};

/// The results of an epoch that has just ended, with these metrics.
EpochResult epoch_result(const EpochRecord& record, const std::vector<std::shared_ptr<Metric>>& metrics);
/// The results of an evaluation that has just ended.
Evaluated evaluated(const Evaluation& evaluation, const std::vector<std::shared_ptr<Metric>>& metrics);

}  // namespace keelson::python
