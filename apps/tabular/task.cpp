#include "apps/tabular/task.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "apps/common/ensemble_evaluation.hpp"
#include "apps/common/report/svg_plot.hpp"
#include "engine/base/error.hpp"
#include "nets/mlp/mlp.hpp"

namespace keelson::tabular {

Graph make_network(const RunOptions& o, const Scaling& s) {
  return nets::mlp({.features = std::ssize(s.features),
                    .outputs = s.outputs,
                    .classes = s.with_classes(),
                    .layers = o.layers,
                    .units = o.units,
                    .activation = o.activation,
                    .batch_norm = o.batch_norm,
                    .dropout = o.dropout,
                    .dropout_layers = o.dropout_layers});
}

Scaling scaling_of(const CheckpointReader& checkpoint) {
  const auto& texts = checkpoint.state().texts;
  const auto found = texts.find("scaling");
  if (found == texts.end())
    refuse("{}: has no text 'scaling', which says how rows are scaled", checkpoint.path().string());
  return Scaling::parse(found->second, checkpoint.path().string());
}

std::vector<TargetUnit> target_units(const Scaling& s) {
  std::vector<TargetUnit> units;
  for (std::size_t t = 0; t < s.targets.size(); ++t)
    units.push_back({s.targets[t], s.target_deviations[t], s.target_means[t]});
  return units;
}

ClassMetrics::ClassMetrics(const std::string& judge, const Scaling& s)
    : accuracy(std::make_shared<Accuracy>(s.classes)), auc(std::make_shared<RocAuc>(s.classes)), all{accuracy, auc} {
  if (judge == "auc") std::swap(all[0], all[1]);
  if (judge == "loss") all.insert(all.begin(), std::make_shared<LossMetric>());
}

std::string class_name(const Scaling& s, std::int64_t k) {
  return s.classes.empty() ? fmt::format("class {}", k) : s.classes[static_cast<std::size_t>(k)];
}

std::string roc_plot(const RocAuc& auc, const Scaling& s) {
  app::plot::Plot plot{
      "Receiver operating characteristic", {"false positive rate"}, {"true positive rate"}, {}, 420, 380};
  plot.diagonal = true;
  const auto areas = auc.values();
  for (std::size_t k = 0; k < std::min<std::size_t>(6, areas.size()); ++k) {
    app::plot::Series series;
    series.name =
        fmt::format("{} {:.4f}", class_name(s, areas.size() == 1 ? 1 : static_cast<std::int64_t>(k)), areas[k]);
    series.colour = static_cast<int>(k);
    for (const auto& [x, y] : auc.curve(k)) {
      series.x.push_back(x);
      series.y.push_back(y);
    }
    plot.series.push_back(std::move(series));
  }
  return app::plot::svg(plot);
}

std::vector<app::ReportInput::Section> class_sections(const ClassMetrics& m, const Scaling& s) {
  return {{"Confusion", "<div class='card'>" + app::confusion_table(m.accuracy->confusion(), s.classes) + "</div>"},
          {"Receiver operating characteristic", "<div class='card'>" + roc_plot(*m.auc, s) + "</div>"}};
}

}  // namespace keelson::tabular
