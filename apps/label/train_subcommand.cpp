#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/common/device_options.hpp"
#include "apps/common/folder_lock.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/label/learn/rounds.hpp"
#include "apps/label/subcommands.hpp"
#include "engine/base/error.hpp"
#include "engine/base/utc_time.hpp"

namespace keelson::label {
namespace {

struct TrainOptions {
  std::string project;
  double lr = 0;  ///< 0: not given
  app::DeviceOptions device;
};

ExitCode train(const TrainOptions& o, app::Launch& launch) {
  if (launch.world.size() > 1) refuse("keelson-label train runs on one rank; leave mpirun out");
  if (o.project.empty()) refuse("give --project: the folder of keelson-label start");
  Project project(o.project, true);
  const app::FolderLock lock(o.project);
  if (o.lr > 0 && o.lr != project.training_options().lr) project.append(Labels::learning_rate_line(o.lr, utc_now()));
  const auto device = app::open_device(o.device, launch);
  const Round round = train_round(project, *device.context);
  fmt::print("round {}: {} networks learned from {} labels", round.round, project.settings().networks.members,
             round.labels);
  if (round.changed >= 0) fmt::print("; {:.2f} % of the predictions have changed", 100 * round.changed);
  fmt::print("\n");
  return ExitCode::done;
}

}  // namespace

void define_train(app::CommandLine& line) {
  auto o = std::make_shared<TrainOptions>();
  auto& v = line.subcommand("train", "Train the networks on the labels so far, and let them judge all images",
                            [o](app::Launch& launch) { return train(*o, launch); });
  v.option_without_default("--project", o->project, "Folder of the project", "DIR");
  v.option_without_default(
       "--lr", o->lr, "Learning rate at the beginning of this round and of those after it; default: as before", "RATE")
      .positive();
  declare(o->device, v);
}

}  // namespace keelson::label
