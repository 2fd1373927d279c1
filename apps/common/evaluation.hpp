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

/// What every verb that uses a trained network asks for.
struct EvaluationOptions {
  std::string checkpoint;
  std::int64_t batch = 4;
  LoaderThreads loader = undecided_threads;
  bool json = false;
  DeviceOptions device;
  TraceOption trace;
};

/// --checkpoint and the device; --batch, --loader-threads, --json and --trace.
void declare_checkpoint(EvaluationOptions& o, Verb& verb);
void declare_evaluation(EvaluationOptions& o, Verb& verb);

/// Refuses a checkpoint of another program's networks. `family`: how the names of the program's networks begin; `name`:
/// what people call them. Throws InputError.
void check_family(const CheckpointReader& checkpoint, const std::string& family, const std::string& name);

/// What --checkpoint names: of a run's folder the best, else the newest. Throws InputError for none and for a damaged
/// one. Collective.
CheckpointReader open_checkpoint(const EvaluationOptions& o, Communicator& world);

/// With everything that the options say; the metric is left.
EvaluatorOptions evaluator_options(const EvaluationOptions& o, const Job& job);

}  // namespace keelson::app
