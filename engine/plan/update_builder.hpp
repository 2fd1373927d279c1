#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/ops/update.hpp"
#include "engine/plan/gradients.hpp"

namespace keelson {

/// A parameter that has a gradient, or the slice of the parameter that this rank updates (OptimizerShards). Parameter,
/// gradient and states share one dense layout; that of a slice is (elements).
struct UpdatedParameter {
  std::string name;  ///< "conv1/weights"
  Shape shape;       ///< logical shape of the whole parameter
  /// The parameter; the whole gradient, or (row_count, width) f32 for a gradient by rows. With PlanOptions::lag the
  /// gradient is that of the step before.
  BufferId value, gradient;
  BufferId rows = no_buffer;   ///< of a gradient by rows: (row_count) s32 row numbers; no_buffer for a whole gradient
  std::int64_t row_count = 0;  ///< rows of a gradient by rows, used or not; 0 for a whole gradient
  bool is_outer = false;       ///< whether the parameter is among matrices_of_outer_layers()
};

/// Appends the calls of an optimizer's step to a plan: ready parts, and what an optimizer needs to call its own
/// kernels.
class UpdateBuilder {
 public:
  /// `graph`: of the plan, before fusion. `rule`: of the optimizer that will append its calls. Must outlive the
  /// builder.
  UpdateBuilder(CompileState& build, const Graph& graph, const Gradients& gradients, const UpdateRule& rule);

  /// All parameters that have a gradient, each once. If each rank updates shards: this rank's slices of them.
  const std::vector<UpdatedParameter>& parameters() const { return parameters_; }

  // ---- parts

  /// A buffer of f64, whose elements add up to the sum of the squares of all gradients, before the gradients are
  /// divided by the loss scale. The first call of global_norm() appends the calls; later calls return the same buffer.
  BufferId global_norm();
  /// Appends the check of all gradients. If a gradient is not finite, no parameter and no state moves in the step.
  /// The plan calls this function; optimizers do not.
  void check_gradients();
  /// A buffer of f64 with one element for each of `values`, at most two: the sum of its squares, of the whole
  /// parameter. Appends the calls.
  BufferId sums_of_squares(const UpdatedParameter& p, const std::vector<BufferId>& values);
  /// Appends ops::Update of a parameter. The states are those of the optimizer, at most two, in the order of
  /// state_names(). `global_norm` and `norms` may be no_buffer if `params` needs none.
  void update(const UpdatedParameter& p, const ops::UpdateParams& params, BufferId global_norm, BufferId norms);

  // ---- for calls of an optimizer's own kernels

  BufferId step_params() const { return build_.step_params; }  ///< one ops::StepParams, u8
  BufferId loss_scale() const { return build_.loss_scale; }    ///< one ops::LossScale; no_buffer without checks
  /// A state of the parameter, by name: of the parameter's layout, or plain in the shape of own_state_shape();
  /// no_buffer if the parameter has no such state. Throws Error for a name that is not among the optimizer's
  /// state_names().
  BufferId state(const UpdatedParameter& p, const std::string& name);
  /// A buffer in the arena, of the parameter's shape and layout.
  BufferId new_buffer(const UpdatedParameter& p, const std::string& name);
  /// A buffer in the arena, of another shape or layout.
  BufferId new_buffer(const UpdatedParameter& p, const std::string& name, const TensorDesc& desc);
  /// A buffer in the arena.
  BufferId new_buffer(const std::string& name, const TensorDesc& desc) { return build_.program.add(name, desc); }
  /// A buffer of so many f64, with memory of its own.
  BufferId new_sums(const std::string& name, std::int64_t count);
  /// Samples of a forward pass on this rank.
  std::int64_t samples() const { return build_.batch; }
  /// A part of a buffer from byte `offset` on: Program::view().
  BufferId view(BufferId b, const TensorDesc& desc, std::size_t offset = 0) {
    return build_.program.view(b, desc, offset);
  }
  /// What the optimizer has observed in the backward pass (UpdateRule::append_observation), in the order of that pass.
  const std::vector<Observation>& observations() const { return build_.observations; }
  /// A copy of `b` in a new buffer of this layout; `b` itself if it has that layout. Appends the call of a reorder.
  BufferId in_layout(BufferId b, const Layout& layout, const std::string& node);
  /// Ranks that have the same parameters and the same sums of gradients, and this rank's number among them.
  int ranks() const { return build_.ranks(Distribution::batch); }
  int rank() const { return ranks() > 1 ? build_.grid->number(Distribution::batch) : 0; }  ///< from 0
  /// The device's context, for primitives that consist of others.
  Context& context() { return build_.parameters.context(); }
  /// Appends the sum over ranks() of arrays of the arena, f32, which calls before have written: each rank has a term of
  /// each element, or it has computed some of the elements, and has zeros in the place of the others; then the sum is
  /// exact. The arrays become parts of one, which travels in one message. `what` names it in reports. Runs in line: it
  /// begins and ends here.
  void sum_parts(const std::vector<BufferId>& arrays, const std::string& what, const Every& every = {});
  /// Shape, dtype and layout of a buffer. By value: later buffers move the program's list of buffers.
  TensorDesc desc(BufferId b) const { return build_.program.buffer(b).desc; }
  /// Makes a primitive. Throws InputError if no backend supports the description.
  template <class Desc>
  std::shared_ptr<typename Desc::Op> make(const Desc& desc) {
    return build_.parameters.context().make(desc);
  }
  /// Appends the call of a verb to the update. `node` and `op` name the call in reports. With `every` the call runs in
  /// these steps alone (Call::every). Throws Error for operands that do not fit the declaration.
  template <class Op, template <class> class Args>
  void call(const std::string& node, const std::string& op, std::shared_ptr<Op> primitive, const Args<Buffers>& args,
            const Every& every = {}) {
    append_call<Op, Args>(build_.program, {Phase::update, node, op}, std::move(primitive), args);
    build_.program.calls().back().every = every;
    if (sums_over_ranks_) put_updates_aside();
  }
  /// Appends what stands behind all calls of the optimizer. The plan calls this function; optimizers do not.
  void finish();

 private:
  BufferId new_moment(const std::string& parameter, const TensorDesc& desc, const std::string& name,
                      std::size_t number);
  void put_updates_aside();
  void require_whole() const;
  void add_norms();
  void sum_over_ranks(BufferId own, BufferId all, const std::string& what);
  std::int64_t number_of(const UpdatedParameter& p) const;
  std::int64_t all_parameters() const;
  bool counts(const UpdatedParameter& p) const;
  void append_sum_of_squares(const std::string& node, BufferId src, BufferId sums, std::int64_t index);

  CompileState& build_;
  std::vector<BufferId> gradient_parts_;  ///< buffers that hold all gradients; none with shards
  const Shards* shards_;                  ///< null: each rank updates whole parameters
  /// The axes whose ranks have other parts of the parameters (Parameter::part).
  Distribution::Axes other_parameters() const { return {build_.channel_axis, Distribution::Axis::stage}; }
  /// Norms are sums over ranks, which have shards or parts of the parameters.
  bool sums_over_ranks_;
  /// Then: the sums of squares of this rank's slices or parts, two for each parameter of the network; their sums over
  /// ranks; and the calls that change parameters, which stand behind these sums.
  static constexpr std::int64_t norms_per_parameter = 2;
  BufferId own_norms_ = no_buffer, norms_ = no_buffer;
  std::vector<Call> updates_;
  const UpdateRule& rule_;
  std::vector<std::string> state_names_;
  std::vector<UpdatedParameter> parameters_;
  BufferId global_norm_ = no_buffer;
  std::map<std::pair<std::string, std::string>, BufferId> states_;  ///< by parameter and name
};

}  // namespace keelson
