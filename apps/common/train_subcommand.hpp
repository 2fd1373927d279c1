#pragma once

#include <memory>
#include <optional>
#include <string>

#include "apps/common/members.hpp"
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

/// Defines the subcommand `train`, which calls `train` on the ranks that train (--spares), for each member of an
/// ensemble
/// (--members), with the options of every program.
template <class Run>
Subcommand& define_train_subcommand(CommandLine& line, const std::string& description,
                                    const std::shared_ptr<TrainOptions<Run>>& o,
                                    ExitCode (*train)(TrainOptions<Run>&, Launch&)) {
  Subcommand& v = line.subcommand("train", description, [o, train](Launch& launch) {
    const TrainOptions<Run> given = *o;  // a run fills in what the user left out
    const auto& v = *o->subcommand;
    const MemberRuns runs{o->run.seed, v.given("seed"),
                          v.given("epochs") ? std::optional(o->run.epochs) : std::nullopt};
    if (o->training.members.members > 0 && !o->stage.target.empty())
      refuse("--stage with --members: groups of ranks would copy to the same place; copy with the subcommand `stage`");
    return with_members(launch, given.training, runs, [&](Launch& group) {
      if (const Member* member = group.member) {
        *o = given;
        o->run.seed = member->record.seed;
        o->training.out = member->folder.string();
        o->training.resume.clear();
      }
      return with_spares(group, o->training.spares, [&](Launch& j) { return train(*o, j); });
    });
  });
  o->subcommand = &v;
  declare(o->training, v);
  declare(o->training.members, v);
  declare(o->run, v);
  return v;
}

}  // namespace keelson::app
