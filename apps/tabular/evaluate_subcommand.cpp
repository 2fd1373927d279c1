#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "apps/common/ensemble_evaluation.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/tabular/evaluation.hpp"
#include "apps/tabular/subcommands.hpp"

namespace keelson::tabular {
namespace {

namespace fs = std::filesystem;

struct EvaluateOptions : app::EvaluationOptions {
  std::string data;
  std::vector<std::string> require;
  std::int64_t importance = 0;
};

/// The rows to judge: of --data (its folder test/ if there is one), else those that judged the run.
std::shared_ptr<const ScaledRows> rows_to_judge(const std::string& data, const RunOptions& run, const Scaling& scaling,
                                                Communicator& world) {
  if (!data.empty()) {
    std::error_code none;
    for (const char* part : {"test", "validation"})
      if (fs::is_directory(fs::path(data) / part, none))
        return open_rows((fs::path(data) / part).string(), run.data, scaling, &world);
    return open_rows(data, run.data, scaling, &world);
  }
  const TabularData of_run(run.data, &scaling, &world);
  return std::make_shared<ScaledRows>(of_run.validation());
}

ExitCode evaluate(const EvaluateOptions& o, app::Launch& launch) {
  auto& world = launch.world;
  app::MemberNetworks networks(o, launch, family);
  const Scaling scaling = scaling_of(networks.checkpoint(0));
  for (std::int64_t m = 1; m < networks.size(); ++m)
    if (scaling_of(networks.checkpoint(m)).to_json() != scaling.to_json())
      refuse("{}: has other columns, classes or scales than {}. Expected members that see the same data",
             networks.checkpoint(m).path().string(), networks.checkpoint(0).path().string());
  const auto run = app::stored_options<RunOptions>(networks.state().config);
  const auto rows = rows_to_judge(o.data, run, scaling, world);
  networks.load([&](const CheckpointReader& member) {
    return make_network(app::stored_options<RunOptions>(member.state().config), scaling);
  });
  const auto calibration = o.calibrate ? rows_to_judge("", run, scaling, world) : nullptr;
  const auto judged = scaling.with_classes() ? judge_classes(networks, *rows, calibration.get())
                                             : judge_numbers(networks, *rows, calibration.get());
  const auto importance = measure_importance(networks, *rows, *judged, o.importance);
  const auto out_of_bag = app::list_out_of_bag(o, networks, world, [&] {
    return std::make_unique<ScaledRows>(TabularData(run.data, &scaling, &world).training());
  });
  if (world.rank() != 0) return ExitCode::done;
  if (o.json) {
    nlohmann::ordered_json j{{"checkpoint", o.checkpoint},
                             {"members", networks.size()},
                             {"data", rows->describe()},
                             {"samples", rows->size()},
                             {"calibrated_on", calibration ? calibration->describe() : ""}};
    j["scores"] = app::scores_to_json(judged->rows());
    j.update(judged->facts());
    for (const Importance& i : importance)
      j["importance"].push_back({{"feature", i.feature}, {"increase", i.increase}, {"deviation", i.deviation}});
    fmt::print("{}\n", j.dump(2));
  } else {
    fmt::print("{}\n{}\n", networks.describe(), rows->describe());
    app::print_scores(judged->rows());
    judged->print();
    print_importance(importance, *judged);
  }
  std::fflush(stdout);
  app::write_ensemble_report(o, "Network for a table", networks.describe() + " on " + rows->describe(),
                             "<h2>Scores</h2>" + app::score_table(judged->rows()) + judged->html() +
                                 importance_html(importance, *judged) + out_of_bag);
  app::check_requirements(o.require, judged->rows());
  return ExitCode::done;
}

}  // namespace

void define_evaluate(app::CommandLine& line) {
  auto o = std::make_shared<EvaluateOptions>();
  auto& v = line.subcommand("evaluate", "Judge a trained network, or an ensemble, on rows with known targets",
                            [o](app::Launch& launch) { return evaluate(*o, launch); });
  o->batch = 256;
  declare_checkpoint(*o, v);
  v.option_without_default("--data", o->data,
                           "Rows with their targets: as for train, or a folder with test/; default: those that judged "
                           "the run",
                           "PATH")
      .differs_between_ranks();
  declare_evaluation(*o, v);
  declare_out_of_bag(*o, v);
  v.option("--importance", o->importance,
           "Also shuffle each feature so many times, and say how much worse the network predicts without it; 0: do not",
           "TIMES")
      .non_negative();
  app::declare_requirements(o->require, v, "\"ROC AUC:0.75\", accuracy:0.9, MAE:0.3");
}

}  // namespace keelson::tabular
