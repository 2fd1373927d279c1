#pragma once

#include <vector>

#include "engine/data/loader.hpp"
#include "engine/graph/plan.hpp"

namespace keelson {

/// Hands the loader's batches to a plan's inputs: field by field of the same name, and "weight". Fields come
/// channels-last. Where the host shares the device's memory the plan reads them where they are, or, where the network
/// wants plain, they are turned straight into the input.
class BatchFeed {
 public:
  /// Throws InputError for a data set whose fields do not fit the plan's inputs, naming both.
  BatchFeed(const std::vector<Field>& fields, Plan& plan, Context& context);
  /// For the next step; `batch` must stay valid until that step has ended.
  void feed(const Batch& batch);

 private:
  struct Target {
    std::string name;
    Tensor tensor;
    bool turn;                   ///< channels-last -> plain
    std::vector<float> staging;  ///< for devices that the host cannot write to
  };
  Plan& plan_;
  Context& context_;
  std::vector<Target> targets_;
  Tensor weight_;
};

}  // namespace keelson
