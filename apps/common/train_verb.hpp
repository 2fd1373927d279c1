#pragma once

#include <memory>
#include <string>

#include "apps/common/spares.hpp"
#include "apps/common/training.hpp"
#include "apps/common/verb.hpp"

namespace keelson::app {

/// What the user says to a train verb. `Run`: the program's run options, for which there is declare(Run&, Verb&).
template <class Run>
struct TrainOptions {
  Run run;
  TrainingOptions training;
  std::string data;         ///< --data of programs that read files of samples
  bool check_data = false;  ///< --check-data of these programs
  Verb* verb = nullptr;     ///< that the options are declared on
};

/// Defines the verb `train`, which calls `train` on the ranks that train (--spares), with the options of every program.
template <class Run>
Verb& define_train_verb(CommandLine& line, const std::string& description, const std::shared_ptr<TrainOptions<Run>>& o,
                        ExitCode (*train)(TrainOptions<Run>&, Job&)) {
  Verb& v = line.verb("train", description, [o, train](Job& job) {
    return with_spares(job, o->training.spares, [&](Job& j) { return train(*o, j); });
  });
  o->verb = &v;
  declare(o->training, v);
  declare(o->run, v);
  return v;
}

}  // namespace keelson::app
