#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/report/metrics_file.hpp"
#include "engine/execute/executor.hpp"
#include "engine/train/metrics/metric.hpp"
#include "engine/train/run_times.hpp"

namespace keelson::app {

/// Everything that a report of a run shows.
struct ReportInput {
  std::string title;     ///< "CosmoFlow (mlperf), 32^3"
  std::string subtitle;  ///< one line under it
  std::string status;    ///< "running", "all epochs done", ...
  History history;
  std::shared_ptr<const Metric> metric;
  double target = 0;       ///< > 0: drawn into the metric's plot
  SampleUnit unit;         ///< of losses and rates
  std::int64_t batch = 0;  ///< samples of a step, of all ranks together; for the plot of the noise scale

  /// One target in the last validation. Predictions are in the user's units; they may cover only some of the samples.
  struct Target {
    std::string name;
    std::vector<double> predicted, truth;
    double error = 0;     ///< metric
    double baseline = 0;  ///< metric of always predicting the mean; 0: unknown
    double physical = 0;  ///< mean absolute error in the user's units
  };
  std::vector<Target> targets;  ///< empty: the report shows no single targets
  std::string targets_note;     ///< says which samples these are

  /// A section that a program adds after the curves: a title and HTML.
  struct Section {
    std::string title, html;
  };
  std::vector<Section> sections;

  using Facts = std::vector<std::pair<std::string, std::string>>;
  Facts machine, configuration;
  std::optional<RunTimes> times;  ///< at the end of a run on several ranks
  std::vector<PlanRow> plan;
  std::string plan_note;
};

/// One HTML page with everything inside: inline SVG and CSS, no scripts, no other files; light and dark.
std::string render_report(const ReportInput& input);

}  // namespace keelson::app
