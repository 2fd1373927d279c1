#pragma once

#include <cstdint>
#include <string>

#include "apps/common/app.hpp"
#include "apps/common/device_options.hpp"
#include "apps/common/loader_options.hpp"
#include "apps/common/trace_option.hpp"
#include "engine/train/checkpoint/checkpoint_reader.hpp"
#include "engine/train/evaluator.hpp"

namespace keelson::app {

/// Options of every verb that uses a trained network.
struct EvaluationOptions {
  std::string checkpoint;
  std::int64_t batch = 4;
  LoaderThreads loader = undecided_threads;
  bool json = false;
  DeviceOptions device;
  TraceOption trace;
};

/// The first declares --checkpoint and the device's options; the second --batch, --loader-threads, --json and --trace.
void declare_checkpoint(EvaluationOptions& o, Verb& verb);
void declare_evaluation(EvaluationOptions& o, Verb& verb);

/// Refuses a checkpoint with a network of another program. `family`: prefix of the names of this program's networks;
/// `name`: the family's name in messages. Throws InputError.
void check_family(const CheckpointReader& checkpoint, const std::string& family, const std::string& name);

/// Opens the checkpoint that --checkpoint names. If --checkpoint names a run's folder: opens the best checkpoint of the
/// run, else the newest. Throws InputError if there is no checkpoint, or if it is damaged. Collective.
CheckpointReader open_checkpoint(const EvaluationOptions& o, Communicator& world);

/// The evaluator's options as `o` and `job` set them. The caller adds the metrics.
EvaluatorOptions evaluator_options(const EvaluationOptions& o, const Job& job);

}  // namespace keelson::app
