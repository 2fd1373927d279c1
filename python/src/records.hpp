#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/train/evaluator.hpp"
#include "engine/train/metrics/metric.hpp"

namespace keelson::python {

/// An Evaluation with the values of all metrics, not only of the first metric.
struct Evaluated {
  Evaluation evaluation;
  std::map<std::string, double> metrics;              ///< Metric::value() by name
  std::map<std::string, std::vector<double>> values;  ///< Metric::values() by name
};

/// The results of an evaluation that has just ended.
Evaluated evaluated(const Evaluation& evaluation, const std::vector<std::shared_ptr<Metric>>& metrics);

}  // namespace keelson::python
