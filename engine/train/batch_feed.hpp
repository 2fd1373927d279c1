#pragma once

#include <vector>

#include "engine/data/loader.hpp"
#include "engine/graph/plan.hpp"

namespace keelson {

/// Hands the loader's batches to a plan's inputs: field by field of the same name, and "weight". Fields come
/// channels-last; where the network wants plain they are turned, straight into the input where the host can write
/// there.
class BatchFeed {
 public:
  /// Throws InputError for a data set whose fields do not fit the plan's inputs, naming both.
  BatchFeed(const std::vector<Field>& fields, const Plan& plan, Context& context);
  void copy(const Batch& batch);

 private:
  struct Target {
    Tensor tensor;
    bool turn;                   ///< channels-last -> plain
    std::vector<float> staging;  ///< for devices that the host cannot write to
  };
  Context& context_;
  std::vector<Target> targets_;
  Tensor weight_;
};

}  // namespace keelson
