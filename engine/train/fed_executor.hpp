#pragma once

#include "engine/data/loader.hpp"
#include "engine/execute/executor.hpp"
#include "engine/train/input_pipeline.hpp"

namespace keelson {

/// An executor, and the pipeline that brings batches to the executor's inputs.
struct FedExecutor {
  /// Makes plan, executor and pipeline. `decoding` is that of the batches, and decides PlanOptions::inputs_as_read.
  /// Throws as the constructors of Executor and InputPipeline, and is collective as that of Executor.
  FedExecutor(const Graph& graph, Parameters& parameters, PlanOptions options, const Dataset& data,
              const SampleDecoding& decoding)
      : executor(graph, parameters, (options.inputs_as_read = decoding.by_device, options)),
        input(data, decoding, executor, parameters.context()) {}

  Executor executor;    ///< of the plan
  InputPipeline input;  ///< ends before the batches that it reads
};

}  // namespace keelson
