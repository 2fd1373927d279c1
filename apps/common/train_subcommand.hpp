#pragma once

#include <memory>
#include <string>

#include "apps/common/spares.hpp"
#include "apps/common/stage_data.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/common/training.hpp"

namespace keelson::app {

/// What the user says to a train subcommand. `Run`: the program's run options, for which there is declare(Run&,
/// Subcommand&).
template <class Run>
struct TrainOptions {
  Run run;
  TrainingOptions training;
  std::string data;                  ///< --data of programs that read files of samples
  StageRequest stage;                ///< --stage of these programs
  bool check_data = false;           ///< --check-data of these programs
  Subcommand* subcommand = nullptr;  ///< that the options are declared on
};

/// Defines the subcommand `train`, which calls `train` on the ranks that train (--spares), with the options of every
/// program.
template <class Run>
Subcommand& define_train_subcommand(CommandLine& line, const std::string& description,
                                    const std::shared_ptr<TrainOptions<Run>>& o,
                                    ExitCode (*train)(TrainOptions<Run>&, Launch&)) {
  Subcommand& v = line.subcommand("train", description, [o, train](Launch& launch) {
    return with_spares(launch, o->training.spares, [&](Launch& j) { return train(*o, j); });
  });
  o->subcommand = &v;
  declare(o->training, v);
  declare(o->run, v);
  return v;
}

}  // namespace keelson::app
