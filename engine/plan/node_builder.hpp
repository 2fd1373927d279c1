#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "engine/graph/parameters.hpp"
#include "engine/plan/precision.hpp"
#include "engine/plan/typed_call.hpp"

namespace keelson {

/// A gradient that is non-zero in few rows (ops::Embedding): their numbers and values, summed over this rank.
struct SparseGradient {
  std::string parameter;
  std::int64_t count;  ///< rows, used or not
  BufferId rows, values;
};

class NodeBuilder;

/// What the compilation of one graph knows while it walks the nodes: the program so far and the buffers of values and
/// gradients.
struct CompileState {
  explicit CompileState(Parameters& p) : parameters(p) {}

  Parameters& parameters;
  Program program;
  bool training = true;
  std::int64_t batch = 1;
  Precision precision = Precision::fp32;
  bool half_activations = false;  ///< values between layers have the precision's type where a primitive makes them so
  bool checks_gradients = false;  ///< on the device, before parameters move
  const ProcessGrid* grid = nullptr;  ///< null: this rank alone
  bool sparse_allowed = false;        ///< the optimizer can take gradients by rows
  int ranks(ProcessGrid::Axis axis) const { return grid ? grid->extent(axis) : 1; }

  std::vector<Graph::Node> nodes;            ///< after fusion
  std::vector<BufferId> values;              ///< per node; no_buffer until planned
  std::vector<bool> wants_gradient;          ///< per node: a parameter lies upstream
  std::vector<bool> wants_f32;               ///< per node: losses and callers read its value
  std::vector<std::vector<BufferId>> diffs;  ///< per node: contributions to its gradient

  BufferId step_params = no_buffer;  ///< one StepParams, u8
  BufferId loss_scale = no_buffer;   ///< one LossScale, u8; none where gradients are not checked
  BufferId weight = no_buffer;       ///< (batch) f32 sample weights
  BufferId loss = no_buffer;         ///< one f64
  std::map<std::string, BufferId> inputs;
  std::map<std::string, BufferId> parameter_buffers;
  /// Gradients in the order in which backward makes them, in their parameter's layout; placed in buckets afterwards.
  std::vector<std::pair<std::string, BufferId>> gradients;
  std::vector<SparseGradient> sparse_gradients;
  std::vector<std::pair<int, std::function<void(NodeBuilder&)>>> at_update;  ///< by node: ForwardBuilder::at_update
  std::map<int, BufferId> next_states;  ///< per state node: its value after the step
  /// Layouts in which a buffer has already been made available.
  std::map<BufferId, std::vector<BufferId>> reordered;
};

/// Common to both passes: makes primitives and appends calls in the name of one node.
class NodeBuilder {
 public:
  NodeBuilder(CompileState& build, Phase phase, int node) : build_(build), phase_(phase), node_(node) {}

  bool training() const { return build_.training; }
  std::int64_t batch() const { return build_.batch; }
  DType compute() const { return compute_type(build_.precision); }
  bool tf32() const { return build_.precision == Precision::tf32; }
  const Graph::Node& node() const { return build_.nodes[node_]; }
  const ValueShape& src_value(int i) const { return build_.nodes[node().srcs[i]].shape; }
  bool wants_diff_src(int i) const { return training() && build_.wants_gradient[node().srcs[i]]; }

  template <class Desc>
  std::shared_ptr<typename Desc::Op> make(const Desc& desc) {
    return context().make(desc);
  }
  template <class Desc>
  std::shared_ptr<typename Desc::Op> try_make(const Desc& desc) {
    return context().try_make(desc);
  }

  const TensorDesc& desc(BufferId b) const { return build_.program.buffer(b).desc; }
  /// `b` in this layout: itself, or the result of a Reorder node that is inserted here (once per buffer and layout).
  BufferId in_layout(BufferId b, const Layout& layout) { return converted(b, layout, desc(b).dtype); }
  /// The same with another dtype, too.
  BufferId converted(BufferId b, const Layout& layout, DType type);
  /// Throws Error for a distribution that is sharded: none is built yet.
  BufferId new_buffer(const std::string& name, const TensorDesc& desc, const Distribution& distribution = {});
  BufferId new_bytes(const std::string& name, std::size_t bytes);  ///< no_buffer for 0
  BufferId view(BufferId b, const TensorDesc& desc) { return build_.program.view(b, desc); }
  BufferId step_params() const { return build_.step_params; }
  BufferId loss_scale() const { return build_.loss_scale; }
  BufferId sample_weight() const { return build_.weight; }
  BufferId loss() const { return build_.loss; }

  /// Append a call of the verb: `p.forward(op, {.src = x, .dst = y})`. A required operand that is left out does not
  /// compile; one that does not fit the primitive's declaration throws Error here. Scratch memory comes by itself.
  template <class Op>
  void forward(const std::shared_ptr<Op>& op, const typename Op::template Forward<Buffers>& args,
               std::string name = "") {
    append_call<Op, Op::template Forward>(build_.program, place(std::move(name)), op, args);
  }
  template <class Op>
  void backward_data(const std::shared_ptr<Op>& op, const typename Op::template BackwardData<Buffers>& args,
                     std::string name = "") {
    append_call<Op, Op::template BackwardData>(build_.program, place(std::move(name)), op, args);
  }
  template <class Op>
  void backward_weights(const std::shared_ptr<Op>& op, const typename Op::template BackwardWeights<Buffers>& args,
                        std::string name = "") {
    append_call<Op, Op::template BackwardWeights>(build_.program, place(std::move(name)), op, args);
  }

  // ---- communication that the plan does not insert by itself; in the pass of this builder

  /// Ranks along an axis of the process grid.
  int ranks(ProcessGrid::Axis axis) const { return build_.ranks(axis); }
  /// Appends the start of a collective and returns its end, which wait() appends. Calls in between must leave its
  /// operands alone. All ranks along the axis make the same calls. With one rank along the axis nothing is sent, and
  /// dst becomes src.
  [[nodiscard]] Call start(const CommunicationDesc& desc);
  void wait(Call end) { build_.program.calls().push_back(std::move(end)); }

  Context& context() const { return build_.parameters.context(); }

 protected:
  CallPlace place(std::string op) const {
    return {phase_, node().name, op.empty() ? node().layer->kind() : std::move(op)};
  }

  CompileState& build_;
  Phase phase_;
  int node_;
};

/// The forward pass as one layer sees it.
class ForwardBuilder : public NodeBuilder {
 public:
  using NodeBuilder::NodeBuilder;

  BufferId src_buffer(int i) const { return build_.values[node().srcs[i]]; }
  const TensorDesc& src(int i) const { return desc(src_buffer(i)); }
  /// src i in this layout and in type().
  BufferId src_in(int i, const Layout& layout) { return converted(src_buffer(i), layout, type()); }
  /// The dtype in which a layer works that adopts its sources' (element-wise work, pooling, ...).
  DType type() const { return is_half(src(0).dtype) && wants_f32() ? DType::f32 : src(0).dtype; }
  /// Whether the result has to be f32, since a loss or the caller reads it.
  bool wants_f32() const { return build_.wants_f32[node_]; }
  /// The dtype of a result that is computed anew.
  DType result_type() const { return build_.half_activations && !wants_f32() ? compute() : DType::f32; }
  /// What a compute-bound op asks for: `any`, but a graph input's own layout, since nothing was computed that could lie
  /// otherwise.
  TensorDesc src_request(int i) const;
  /// The layout of src i where it is strided, else channels-last: for ops that read elements by index.
  Layout strided_src(int i) const;
  Shape dst_shape() const { return node().shape.at_batch(batch()); }
  TensorDesc dst_request(DType type = DType::f32) const { return {dst_shape(), type, Layout::any()}; }

  /// Makes a primitive with weights: in the layout that the parameter has already, if that costs no better backend,
  /// else in `any`. `describe(TensorDesc weights)` gives the description.
  template <class F>
  auto make_with_weights(const std::string& weights, F describe) {
    auto made = try_make_with_weights(weights, describe);
    return made ? std::move(made) : make(describe(TensorDesc{parameter(weights).shape, DType::f32, Layout::any()}));
  }
  /// Null where no backend makes it.
  template <class F>
  auto try_make_with_weights(const std::string& weights, F describe) {
    const Parameter& p = parameter(weights);
    auto free = try_make(describe(TensorDesc{p.shape, DType::f32, Layout::any()}));
    if (!free || !p.value || free->layout(ops::Verb::forward, ops::Role::weights) == p.value.layout()) return free;
    auto fixed = try_make(describe(p.value.desc()));
    return fixed && fixed->backend() == free->backend() ? fixed : free;
  }
  Parameter& parameter(const std::string& name) const { return build_.parameters.at(node().parameter(name)); }
  /// The parameter's buffer in this layout and dtype; gives it memory if it has none.
  BufferId parameter_in(const std::string& name, const Layout& layout, DType type = DType::f32);

  /// The result: a new buffer, or (set_dst) one that exists, e.g. a view of src.
  BufferId new_dst(const Layout& layout, DType type = DType::f32);
  void set_dst(BufferId b) { build_.values[node_] = b; }
  BufferId dst() const { return build_.values[node_]; }
  /// `append` appends calls to the update of the step, after those of the optimizer; not in plans without one.
  void at_update(std::function<void(NodeBuilder&)> append) { build_.at_update.emplace_back(node_, std::move(append)); }
  /// The value that src i, a state, gets after this step: memory outside the arena, like the state itself.
  BufferId next_state(int i);
  BufferId workspace(const ops::Primitive& p) {
    return training() ? new_bytes("workspace", p.workspace_bytes()) : no_buffer;
  }
};

/// The backward pass as one layer sees it.
class BackwardBuilder : public NodeBuilder {
 public:
  BackwardBuilder(CompileState& build, int node);

  /// The gradient of this node's result, summed over its consumers, as they made it or in `layout`.
  BufferId diff_dst() const { return diff_dst_; }
  BufferId diff_dst_in(const Layout& layout, DType type = DType::f32) { return converted(diff_dst_, layout, type); }
  /// A new buffer for this node's contribution to the gradient of src i, f32 or 16-bit whatever src i is.
  BufferId new_diff_src(int i, const Layout& layout, DType type = DType::f32);
  /// The contribution is a buffer that exists: diff_dst itself or a view of it.
  void set_diff_src(int i, BufferId b) { build_.diffs[node().srcs[i]].push_back(b); }
  /// Where to write a parameter's gradient, in `layout`; call finish_gradients() after the call that writes it. Where
  /// nodes share the parameter their gradients are added up.
  BufferId new_gradient(const std::string& parameter, const Layout& layout);
  void finish_gradients();
  /// Whether a gradient of this parameter that is non-zero in at most `count` rows is better kept as rows: only where
  /// this node alone has the parameter, and the exchange of all ranks' rows moves less than that of the whole.
  bool use_sparse(const std::string& parameter, std::int64_t count) const;
  /// Where to write such a gradient; plain (count) s32 and (count, width) f32.
  SparseGradient new_sparse_gradient(const std::string& parameter, std::int64_t count);
  /// The gradient made so far by others that share the parameter, to add to in place; no_buffer if there is none.
  BufferId gradient_so_far(const std::string& parameter) const;
  BufferId parameter_in(const std::string& name, const Layout& layout, DType type = DType::f32);

 private:
  BufferId diff_dst_ = no_buffer;
  BufferId in_memory(const std::string& name, const TensorDesc& desc);
  struct Unfinished {
    BufferId made, gradient;
    bool add;  ///< to what other nodes have put there
  };
  std::vector<Unfinished> unfinished_;  ///< gradients not made where they belong
};

}  // namespace keelson
