#include <fmt/format.h>

#include "apps/common/sample_files.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/cosmoflow/judgement.hpp"
#include "apps/cosmoflow/subcommands.hpp"
#include "engine/base/counted.hpp"

namespace keelson::cosmoflow {

ExitCode evaluate_ensemble(const app::EvaluationOptions& o, const std::string& folder, app::Launch& launch) {
  auto& world = launch.world;
  app::MemberNetworks networks(o, launch, family);
  const auto run = app::stored_options<RunOptions>(networks.state().config);
  const auto data = open_data(run, app::find_held_out_data(folder, run), world);
  for (std::int64_t m = 0; m < networks.size(); ++m) require_ranges(*data, networks.checkpoint(m));
  const Judgement judgement(o, networks, run, *data, world);
  const auto out_of_bag = app::list_out_of_bag(o, networks, world, [&] { return open_data(run, run.train, world); });
  if (world.rank() != 0) return ExitCode::done;

  if (o.json) {
    nlohmann::ordered_json j{{"ensemble", o.checkpoint},
                             {"members", networks.size()},
                             {"data", data->describe()},
                             {"samples", data->size()},
                             {"metric", judgement.metric().name()},
                             {"calibrated_on", judgement.calibrated_on()}};
    j["scores"] = app::scores_to_json(judgement.rows());
    j["targets"] = judgement.targets_to_json();
    fmt::print("{}\n", j.dump(2));
  } else {
    fmt::print("{}\n{}\n{}\n", networks.describe(), data->describe(), counted(data->size(), "sample"));
    app::print_scores(judgement.rows());
    judgement.print_targets();
  }
  std::fflush(stdout);
  judgement.write_report(o, "CosmoFlow ensemble", networks.describe() + " on " + data->describe(), out_of_bag);
  return ExitCode::done;
}

}  // namespace keelson::cosmoflow
