#pragma once

#include <vector>

#include "engine/data/loader.hpp"
#include "engine/execute/executor.hpp"

namespace keelson {

/// Allocates memory from which this device copies batches fastest (LoaderOptions::allocate). Empty where the device
/// reads batches in place.
std::function<std::shared_ptr<void>(std::size_t)> batch_memory(Device& device);

/// Hands the loader's batches to the inputs of a plan: each field to the input of the same name, and the weights to
/// "weight". Fields are channels-last. Where the device shares the host's memory, the plan reads the fields in place;
/// only where the network wants a plain input, the field is reordered into the input. Other devices copy the fields to
/// their memory while the step before still runs.
class InputPipeline {
 public:
  /// Throws InputError, naming both, where a field does not fit the input. All references must outlive the pipeline.
  InputPipeline(const std::vector<Field>& fields, Executor& executor, Context& context);
  ~InputPipeline() { finish(); }
  InputPipeline(const InputPipeline&) = delete;
  /// Hands over the batch of the next step. `batch` must stay valid until finish(), and on a device that shares the
  /// host's memory until that step has ended.
  void feed(const Batch& batch);
  /// Returns when all copies of the batch have ended. Called after the work of the step is queued.
  void finish();

 private:
  struct Input {
    std::string name;
    Tensor tensor;
    bool turn;  ///< channels-last -> plain
    // For devices that the host cannot write to:
    Tensor ahead;                  ///< where the copy arrives
    std::shared_ptr<void> staged;  ///< where it starts, if not in the batch itself
  };
  void feed_here(const Batch& batch);
  void feed_device(const Batch& batch);
  Executor& executor_;
  Context& context_;
  std::vector<Input> targets_;
  Input weight_;
  std::unique_ptr<Queue> queue_;  ///< null where the host shares the device's memory
};

}  // namespace keelson
