#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/member_designs.hpp"
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
  std::string data;                         ///< --data of programs that read files of samples
  StageRequest stage;                       ///< --stage of these programs
  bool check_data = false;                  ///< --check-data of these programs
  Subcommand* subcommand = nullptr;         ///< that the options are declared on
  std::vector<std::string> member_options;  ///< of `run`, in which members of an ensemble may differ
};

/// Defines the subcommand `train`, which calls `train` on the ranks that train (--spares), for each member of an
/// ensemble (--members), with the options of every program; and the subcommand `lr-range`, which calls `train` with
/// TrainingOptions::finds_rates. `declare_more` declares the program's other options on each of the two.
template <class Run>
void define_train_subcommands(CommandLine& line, const std::string& description,
                              const std::shared_ptr<TrainOptions<Run>>& o,
                              ExitCode (*train)(TrainOptions<Run>&, Launch&),
                              void (*declare_more)(TrainOptions<Run>&, Subcommand&)) {
  const auto search = std::make_shared<TrainOptions<Run>>(*o);
  search->training.finds_rates = true;
  search->training.out = "lr-range";
  Subcommand& v = line.subcommand("train", description, [o, train](Launch& launch) {
    const TrainOptions<Run> given = *o;  // a run fills in what the user left out
    const auto& v = *o->subcommand;
    const std::string& file = o->training.members.designs;
    const MemberRuns runs{o->run.seed, v.given("seed"), v.given("epochs") ? std::optional(o->run.epochs) : std::nullopt,
                          read_designs(file, launch.world)};
    check_designs(runs.designs, file, o->member_options, *o->subcommand);
    *o = given;
    if ((o->training.members.members > 0 || !runs.designs.empty()) && !o->stage.target.empty())
      refuse("--stage with --members: groups of ranks would copy to the same place; copy with the subcommand `stage`");
    return with_members(launch, given.training, runs, [&](Launch& group) {
      if (Member* member = group.member) {
        member->reset = [&o, &given, member] {
          *o = given;
          o->run.seed = member->record.seed;
          o->training.out = member->folder.string();
          o->training.resume.clear();
        };
        member->reset();
      }
      return with_spares(group, o->training.spares, [&](Launch& j) { return train(*o, j); });
    });
  });
  o->subcommand = &v;
  declare(o->training, v);
  declare(o->training.members, v);
  const std::vector<std::string> others = v.member_options();
  declare(o->run, v);
  for (const std::string& name : v.member_options())
    if (std::ranges::find(others, name) == others.end()) o->member_options.push_back(name);
  declare_more(*o, v);
  Subcommand& s =
      line.subcommand("lr-range", "Find learning rates: train some steps with rising rates, and plot the loss",
                      [search, train](Launch& launch) { return train(*search, launch); });
  search->subcommand = &s;
  declare(search->training, s);
  declare(search->run, s);
  declare_more(*search, s);
}

}  // namespace keelson::app
