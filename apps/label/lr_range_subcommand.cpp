#include "apps/common/device_options.hpp"
#include "apps/common/rate_search.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/label/learn/rounds.hpp"
#include "apps/label/subcommands.hpp"
#include "engine/base/error.hpp"

namespace keelson::label {
namespace {

struct RangeOptions {
  std::string project, out = "lr-range";
  RateRangeOptions rates = {.keep_parameters = false};
  app::DeviceOptions device;
};

ExitCode lr_range(const RangeOptions& o, app::Launch& launch) {
  if (launch.world.size() > 1) refuse("keelson-label lr-range runs on one rank; leave mpirun out");
  if (o.project.empty()) refuse("give --project: the folder of keelson-label start");
  const Project project(o.project, false);
  const auto labelled = labels_to_learn(project);
  const Features features = project.features();
  const auto session = app::open_device(o.device, launch);
  const Ensemble ensemble(*session.context, features, std::ssize(project.settings().classes),
                          project.training_options());
  return ensemble.search_rates(labelled, o.rates, o.out, session);
}

}  // namespace

void define_lr_range(app::CommandLine& line) {
  auto o = std::make_shared<RangeOptions>();
  auto& v = line.subcommand(
      "lr-range", "Find learning rates for a project's networks: train some steps with rising rates, and plot the loss",
      [o](app::Launch& launch) { return lr_range(*o, launch); });
  v.option_without_default("--project", o->project, "Folder of the project", "DIR");
  declare(o->rates, o->out, v);
  declare(o->device, v);
}

}  // namespace keelson::label
