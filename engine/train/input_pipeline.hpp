#pragma once

#include <vector>

#include "engine/data/loader.hpp"
#include "engine/execute/executor.hpp"

namespace keelson {

/// Memory for the loader's batches from which this device copies fastest; empty where it reads them where they are.
std::function<std::shared_ptr<void>(std::size_t)> batch_memory(Device& device);

/// Hands the loader's batches to a plan's inputs: field by field of the same name, and "weight". Fields come
/// channels-last. Where the host shares the device's memory the plan reads them where they are, or, where the network
/// wants plain, they are turned straight into the input. Else they are copied beside the step before, into memory from
/// where the step takes them.
class InputPipeline {
 public:
  /// Throws InputError for a data set whose fields do not fit the plan's inputs, naming both.
  InputPipeline(const std::vector<Field>& fields, Executor& executor, Context& context);
  ~InputPipeline() { finish(); }
  InputPipeline(const InputPipeline&) = delete;
  /// For the next step; `batch` must stay valid until finish(), and on the host's own device until that step has ended.
  void feed(const Batch& batch);
  /// Returns when the batch is no longer read. Call after the work of its step is queued.
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
