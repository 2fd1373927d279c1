#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/common/report/report.hpp"
#include "apps/common/target_metrics.hpp"
#include "apps/tabular/run_options.hpp"
#include "engine/graph/graph.hpp"
#include "engine/train/checkpoint/checkpoint_reader.hpp"
#include "engine/train/metrics/accuracy.hpp"
#include "engine/train/metrics/loss_metric.hpp"
#include "engine/train/metrics/roc_auc.hpp"

namespace keelson::tabular {

inline constexpr app::NetworkFamily family{"tabular-", "network for tables"};
inline constexpr const char* network_name = "tabular-mlp";

/// The network for rows of this scaling.
Graph make_network(const RunOptions& o, const Scaling& scaling);

/// The scaling of a checkpoint. Throws InputError if it has none.
Scaling scaling_of(const CheckpointReader& checkpoint);

/// The targets with their units, for metrics of numbers.
std::vector<TargetUnit> target_units(const Scaling& scaling);

/// Metrics of classes: accuracy and ROC AUC, the judge first.
struct ClassMetrics {
  ClassMetrics(const std::string& judge, const Scaling& scaling);
  std::shared_ptr<Accuracy> accuracy;
  std::shared_ptr<RocAuc> auc;
  std::vector<std::shared_ptr<Metric>> all;
};

/// The receiver operating characteristic as an SVG plot: of two classes, or of the first six of more.
std::string roc_plot(const RocAuc& auc, const Scaling& scaling);
/// Sections of a report on classes.
std::vector<app::ReportInput::Section> class_sections(const ClassMetrics& metrics, const Scaling& scaling);
/// "class 3", or its name.
std::string class_name(const Scaling& scaling, std::int64_t k);

}  // namespace keelson::tabular
