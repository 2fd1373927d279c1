#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/ops/update.hpp"
#include "engine/plan/node_builder.hpp"

namespace keelson {

/// A parameter that has a gradient. Parameter, gradient and states share one dense layout.
struct UpdatedParameter {
  std::string name;  ///< "conv1/weights"
  Shape shape;       ///< plain
  BufferId value, gradient;
  BufferId rows = no_buffer;  ///< of a gradient by rows: the row numbers; no_buffer for a whole gradient
  std::int64_t row_count = 0;
};

/// What an optimizer appends its calls with: ready parts, and what calls of its own kernels need.
class UpdateBuilder {
 public:
  /// `gradients`: floats in the block that holds all whole gradients.
  UpdateBuilder(CompileState& build, std::int64_t gradients, std::vector<std::string> state_names);

  const std::vector<UpdatedParameter>& parameters() const { return parameters_; }

  // ---- parts

  /// f64, any number of sums of squares. Together they are that of all gradients as they are, before they are unscaled.
  /// The calls are appended once, however often this is asked for.
  BufferId global_norm();
  /// Appends the check of all gradients: where one is not finite, no parameter and no state moves in the step. The plan
  /// asks for this check, no optimizer has to.
  void check_gradients();
  /// (number of `values`) f64: the sum of squares of each.
  BufferId sums_of_squares(const UpdatedParameter& p, const std::vector<BufferId>& values);
  /// Appends ops::Update. Its states are the optimizer's, in their order.
  void update(const UpdatedParameter& p, const ops::UpdateParams& params, BufferId global_norm, BufferId norms);

  // ---- for calls of an optimizer's own kernels

  BufferId step_params() const { return build_.step_params; }
  BufferId loss_scale() const { return build_.loss_scale; }  ///< no_buffer where gradients are not checked
  /// Throws Error for a name that is not among the optimizer's state_names().
  BufferId state(const UpdatedParameter& p, const std::string& name);
  /// Of the parameter's shape and layout; alive until the last call that uses the buffer.
  BufferId new_buffer(const UpdatedParameter& p, const std::string& name);
  const TensorDesc& desc(BufferId b) const { return build_.program.buffer(b).desc; }
  template <class Desc>
  std::shared_ptr<typename Desc::Op> make(const Desc& desc) {
    return build_.parameters.context().make(desc);
  }
  /// `node` and `op` name the call in reports.
  template <class Op, template <class> class Args>
  void call(const std::string& node, const std::string& op, std::shared_ptr<Op> primitive, const Args<Buffers>& args) {
    append_call<Op, Args>(build_.program, {Phase::update, node, op}, std::move(primitive), args);
  }

 private:
  BufferId new_sums(const std::string& name, std::int64_t count);
  void append_sum_of_squares(const std::string& node, BufferId src, BufferId sums, std::int64_t index);

  CompileState& build_;
  std::int64_t gradients_;
  std::vector<std::string> state_names_;
  std::vector<UpdatedParameter> parameters_;
  BufferId global_norm_ = no_buffer;
  std::map<std::pair<std::string, std::string>, BufferId> states_;  ///< by parameter and name
};

}  // namespace keelson
