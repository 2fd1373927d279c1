#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "engine/graph/parameters.hpp"
#include "engine/plan/layer_product.hpp"
#include "engine/plan/precision.hpp"
#include "engine/plan/sharing.hpp"
#include "engine/plan/typed_call.hpp"
#include "engine/plan/update_rule.hpp"

namespace keelson {

/// A gradient that is non-zero in few rows (ops::Embedding): the numbers of these rows and their values.
struct SparseGradient {
  std::string parameter;                         ///< "embedding/weights"
  std::int64_t count;                            ///< rows that the buffers have room for, used or not
  BufferId rows, values;                         ///< (count) s32 row numbers; (count, width) f32
  ProcessGrid::Axes axes = Distribution::batch;  ///< the ranks along these axes have rows of the gradient
};

class NodeBuilder;

/// The state of one compilation while the compiler visits the nodes: the program so far, and the buffers of values and
/// gradients.
struct CompileState {
  /// A compilation for these parameters, which must outlive the state.
  explicit CompileState(Parameters& p) : parameters(p) {}

  Parameters& parameters;                 ///< get their layouts and memory while layers are planned
  Program program;                        ///< buffers and calls so far
  bool training = true;                   ///< as in PlanOptions
  std::int64_t batch = 1;                 ///< samples of a forward pass
  Precision precision = Precision::fp32;  ///< as in PlanOptions
  bool half_activations = false;          ///< values between layers have 16 bits if a primitive supports this
  bool checks_gradients = false;          ///< the device checks gradients before parameters move
  const ProcessGrid* grid = nullptr;      ///< null: this rank alone
  bool sparse_allowed = false;            ///< the optimizer can take gradients by rows
  bool lag = false;                       ///< as in PlanOptions
  std::string ahead;  ///< name of the optimizer's first state, if layers read parameters plus that; empty: they do not
  SumOrder order = SumOrder::any;  ///< of losses and gradients over ranks
  bool accumulates = false;  ///< the step has several micro-batches, and the sums over ranks begin behind the last one
  /// As in ExchangeOptions; none on a rank that shares the batch with nobody, and without an optimizer.
  OptimizerShards shards = OptimizerShards::none;
  /// Ranks along these axes of the process grid; 1 without a grid. `group` > 0: ranks of the largest group of so many
  /// neighbours along the last of the axes, as in ProcessGrid::along.
  int ranks(ProcessGrid::Axes axes, int group = 0) const;

  std::vector<Graph::Node> nodes;                               ///< the nodes after fusion
  std::vector<BufferId> values;                                 ///< per node: the result; no_buffer until planned
  std::vector<bool> wants_gradient;                             ///< per node: the result depends on a trained parameter
  std::vector<Sharing> sharing;                                 ///< per node: what the ranks of a replica divide
  ProcessGrid::Axis channel_axis = ProcessGrid::Axis::channel;  ///< whose ranks share channels (Sharing::channels)
  std::vector<bool> wants_f32;                                  ///< per node: a loss or the caller reads the result
  std::vector<std::vector<BufferId>> diffs;                     ///< per node: contributions to its gradient

  BufferId step_params = no_buffer;  ///< one ops::StepParams, u8
  BufferId loss_scale = no_buffer;   ///< one ops::LossScale, u8; none without checked gradients
  /// (batch) f32 sample weights, of which those of samples that another rank counts are 0; inputs["weight"] has the
  /// weights that the caller gives.
  BufferId weight = no_buffer;
  BufferId loss = no_buffer;                          ///< one f64
  BufferId sample_loss = no_buffer;                   ///< (batch) f32; none without PlanOptions::sample_losses
  std::map<std::string, BufferId> inputs;             ///< by name, with the states and "weight"
  std::map<std::string, BufferId> parameter_buffers;  ///< by the parameter's name; only those that calls have asked for
  /// What layers read of each of these: the parameter, or its sum with the first state (UpdateRule::reads_ahead).
  std::map<std::string, BufferId> read_parameters;
  std::map<std::pair<std::string, std::size_t>, BufferId> moment_buffers;  ///< by parameter and number (moment_buffer)
  /// Whole gradients by the parameter's name, in the order in which backward makes them and in the parameter's layout.
  /// Class Gradients places them in buckets afterwards.
  std::vector<std::pair<std::string, BufferId>> gradients;
  std::vector<SparseGradient> sparse_gradients;  ///< gradients by rows
  /// Nodes, and what they append to the update (ForwardBuilder::at_update).
  std::vector<std::pair<int, std::function<void(NodeBuilder&)>>> at_update;
  const UpdateRule* observer = nullptr;   ///< the optimizer, if the plan has one
  std::vector<Observation> observations;  ///< in the order of the backward pass
  std::vector<Call> behind_backward;      ///< ends of collectives that stand behind the last backward pass
  /// Per node: the buffer, made for a later node, in which its result lies (ForwardBuilder::place_result()).
  std::map<int, BufferId> places;
  bool places_results = true;           ///< whether place_result() may be called
  std::map<int, BufferId> next_states;  ///< per state node: the value of the state after the step
  /// Per buffer: its copies in other layouts and dtypes, which later calls use again.
  std::map<BufferId, std::vector<BufferId>> reordered;
};

/// The buffer of a parameter's moment of this number, made at the first call.
BufferId moment_buffer(CompileState& build, const std::string& parameter, const TensorDesc& desc,
                       const std::string& name, std::size_t number);

/// Makes primitives and appends calls for one node. The part that the forward and the backward pass have in common.
class NodeBuilder {
 public:
  /// Appends calls of this phase for the node of this index in `build.nodes`. `build` must outlive the builder.
  NodeBuilder(CompileState& build, Phase phase, int node) : build_(build), phase_(phase), node_(node) {}

  bool training() const { return build_.training; }                  ///< whether the plan has a backward pass
  std::int64_t batch() const { return build_.batch; }                ///< samples of a forward pass
  DType compute() const { return compute_type(build_.precision); }   ///< dtype in which the layer multiplies
  bool tf32() const { return build_.precision == Precision::tf32; }  ///< whether f32 operands may be rounded to TF32
  const Graph::Node& node() const { return build_.nodes[node_]; }    ///< the node after fusion
  /// Shape of source i for one sample.
  const ValueShape& src_value(int i) const { return build_.nodes[node().srcs[i]].shape; }
  /// Whether the backward pass needs the gradient of source i.
  bool wants_diff_src(int i) const { return training() && build_.wants_gradient[node().srcs[i]]; }

  /// Makes a primitive. Throws InputError if no backend supports the description.
  template <class Desc>
  std::shared_ptr<typename Desc::Op> make(const Desc& desc) {
    return context().make(desc);
  }
  /// Makes a primitive. Null if no backend supports the description.
  template <class Desc>
  std::shared_ptr<typename Desc::Op> try_make(const Desc& desc) {
    return context().try_make(desc);
  }

  /// Whether the elements of `b` have gaps between them that belong to a larger value.
  bool has_gaps(BufferId b) const {
    const TensorDesc& d = desc(b);
    return build_.program.is_part(b) && d.layout.is_strided() && !d.layout.is_dense(d.shape);
  }
  /// Whether both lie in the same buffer.
  bool shares_memory(BufferId a, BufferId b) const { return build_.program.root(a) == build_.program.root(b); }
  /// Shape, dtype and layout of a buffer.
  const TensorDesc& desc(BufferId b) const { return build_.program.buffer(b).desc; }
  /// The value of `b` in this layout: `b` itself, or the result of a reorder that is appended here, once per buffer and
  /// layout. `any` accepts every layout.
  BufferId in_layout(BufferId b, const Layout& layout) { return converted(b, layout, desc(b).dtype); }
  /// The value of `b` in this layout and dtype, in a buffer without gaps unless `layout` is that of `b` with its gaps.
  /// `any` keeps the order of the elements.
  BufferId converted(BufferId b, const Layout& layout, DType type);
  /// The value of `b` in this dtype for an op that reads any strides: `b` itself, which may be a part of a larger
  /// buffer (Program::is_part), if its elements are in the order of `layout`; else converted().
  BufferId in_order(BufferId b, const Layout& layout, DType type);
  /// A new buffer in the arena, called "conv1/dst" for name "dst" of node "conv1".
  BufferId new_buffer(const std::string& name, const TensorDesc& desc, const Distribution& distribution = {});
  /// The same with memory of its own (Storage::owned), which all micro-batches share.
  BufferId new_owned(const std::string& name, const TensorDesc& desc) {
    const BufferId b = new_buffer(name, desc);
    build_.program.buffer(b).storage = Storage::owned;
    return b;
  }
  /// A new buffer of this many bytes, u8; no_buffer for 0.
  BufferId new_bytes(const std::string& name, std::size_t bytes);
  /// The memory of `b` from byte `offset` on, with another desc: Program::view().
  BufferId view(BufferId b, const TensorDesc& desc, std::size_t offset = 0) {
    return build_.program.view(b, desc, offset);
  }
  /// Lets `inner` lie within `outer` instead of being copied there: Program::place_inside().
  bool place_inside(BufferId inner, BufferId outer, std::size_t offset) {
    return build_.program.place_inside(inner, outer, offset);
  }
  BufferId step_params() const { return build_.step_params; }  ///< one ops::StepParams, u8
  BufferId loss_scale() const { return build_.loss_scale; }    ///< one ops::LossScale, u8, or no_buffer
  /// Whether this rank computes a part of the node's samples or channels; else all ranks along space and channel
  /// compute the same.
  bool computes_part() const { return build_.sharing[static_cast<std::size_t>(node_)] != Sharing::none; }
  /// (batch) f32: 1 for samples that count, else 0. Sums over samples multiply by it, so that the terms of all ranks
  /// add up to the sum over all samples: if ranks compute the same, the weight of a sample is 1 on one rank alone.
  BufferId sample_weight() const { return computes_part() ? build_.inputs.at("weight") : build_.weight; }
  /// The axes whose ranks have terms of the node's sums over samples, as of gradients. Ranks that compute other
  /// channels of the node have sums of their own.
  ProcessGrid::Axes sum_axes() const;
  BufferId loss() const { return build_.loss; }                ///< one f64
  BufferId sample_loss() const { return build_.sample_loss; }  ///< (batch) f32, or no_buffer

  /// Appends a call of the verb: `p.forward(op, {.src = x, .dst = y})`. A call that leaves out a required operand does
  /// not compile. An operand that does not fit the primitive's declaration throws Error. Scratch memory is added by
  /// itself. `name`: of the op in reports; empty: the layer's kind.
  template <class Op>
  void forward(const std::shared_ptr<Op>& op, const typename Op::template Forward<Buffers>& args,
               std::string name = "") {
    append_call<Op, Op::template Forward>(build_.program, label(std::move(name)), op, args);
  }
  /// The same for the gradient of the sources.
  template <class Op>
  void backward_data(const std::shared_ptr<Op>& op, const typename Op::template BackwardData<Buffers>& args,
                     std::string name = "") {
    append_call<Op, Op::template BackwardData>(build_.program, label(std::move(name)), op, args);
  }
  /// The same for the gradients of weights and biases.
  template <class Op>
  void backward_weights(const std::shared_ptr<Op>& op, const typename Op::template BackwardWeights<Buffers>& args,
                        std::string name = "") {
    append_call<Op, Op::template BackwardWeights>(build_.program, label(std::move(name)), op, args);
  }

  /// Whether the optimizer observes the layer, whose parameter "weights" is that of a dense layer or of a convolution:
  /// then the backward pass has to call BackwardBuilder::observe().
  bool is_observed() const;

  // ---- communication that the plan does not insert by itself

  /// Ranks along these axes of the process grid.
  int ranks(ProcessGrid::Axes axes) const { return build_.ranks(axes); }
  /// Appends the start of a collective to the pass of this builder. Returns the end of the collective, which wait()
  /// appends. Calls in between must not use the operands. All ranks along the axes make the same calls. With one rank
  /// along the axes nothing is sent, and src is copied to dst. Throws Error for operands that do not fit.
  [[nodiscard]] Call start(const CommunicationDesc& desc);
  /// Appends the end of a collective, as start() returned it.
  void wait(Call end) { build_.program.calls().push_back(std::move(end)); }

  /// The start of a collective, for append(). The end is end_of() the start.
  [[nodiscard]] Call prepare(const CommunicationDesc& desc) const;
  /// Appends a start or an end of a collective to the pass of this builder.
  void append(Call call) { build_.program.calls().push_back(std::move(call)); }
  /// Appends an end of a collective behind the step's last backward pass.
  void append_behind_backward(Call end) { build_.behind_backward.push_back(std::move(end)); }

  /// Where primitives are made.
  Context& context() const { return build_.parameters.context(); }

 protected:
  /// Phase and node of this builder, with the name of an op; empty: the layer's kind.
  CallLabel label(std::string op) const {
    return {phase_, node().name, op.empty() ? node().layer->kind() : std::move(op)};
  }

  CompileState& build_;  ///< the compilation
  Phase phase_;          ///< of all calls of this builder
  int node_;             ///< index in CompileState::nodes
};

/// Plans the forward pass of one layer (Layer::plan).
class ForwardBuilder : public NodeBuilder {
 public:
  using NodeBuilder::NodeBuilder;

  BufferId src_buffer(int i) const { return build_.values[node().srcs[i]]; }  ///< source i as its node has made it
  const TensorDesc& src(int i) const { return desc(src_buffer(i)); }          ///< desc of src_buffer(i)
  /// Source i in this layout and of dtype type().
  BufferId src_in(int i, const Layout& layout) { return converted(src_buffer(i), layout, type()); }
  /// The dtype for layers that keep the dtype of their sources (element-wise work, pooling): that of source 0, or f32
  /// if the result has to be f32.
  DType type() const { return is_half(src(0).dtype) && wants_f32() ? DType::f32 : src(0).dtype; }
  /// Whether the result has to be f32, since a loss or the caller reads the result.
  bool wants_f32() const { return build_.wants_f32[node_]; }
  /// The dtype of the result for layers that multiply: f32, or the precision's type if values have 16 bits.
  DType result_type() const { return build_.half_activations && !wants_f32() ? compute() : DType::f32; }
  /// The desc of source i that a compute-bound op asks for in this dtype: layout `any`, or the layout of a graph input
  /// of the dtype, since the caller writes that input in its own layout.
  TensorDesc src_request(int i, DType type) const;
  /// The layout of source i if that layout is strided, else channels-last: for ops that read elements by index.
  Layout strided_src(int i) const;
  Shape dst_shape() const { return node().shape.at_batch(batch()); }  ///< of the result, for the whole batch
  /// The desc of the result with layout `any`.
  TensorDesc dst_request(DType type = DType::f32) const { return {dst_shape(), type, Layout::any()}; }

  /// Makes a primitive with weights, in the layout that the parameter already has, if the same backend supports that
  /// layout, else in a layout that the backend chooses. `describe(TensorDesc weights)` returns the description. Throws
  /// InputError if no backend supports the description.
  template <class F>
  auto make_with_weights(const std::string& weights, F describe) {
    auto made = try_make_with_weights(weights, describe);
    return made ? std::move(made)
                : make(describe(TensorDesc{parameter(weights).held_shape(), DType::f32, Layout::any()}));
  }
  /// The same; null if no backend supports the description.
  template <class F>
  auto try_make_with_weights(const std::string& weights, F describe) {
    const Parameter& p = parameter(weights);
    auto free = try_make(describe(TensorDesc{p.held_shape(), DType::f32, Layout::any()}));
    if (!free || !p.value || free->layout(ops::Verb::forward, ops::Role::weights) == p.value.layout()) return free;
    auto fixed = try_make(describe(p.value.desc()));
    return fixed && fixed->backend() == free->backend() ? fixed : free;
  }
  /// A parameter by the layer's own name ("weights"). Throws Error if there is none.
  Parameter& parameter(const std::string& name) const { return build_.parameters.at(node().parameter(name)); }
  /// The parameter in this layout and dtype. A parameter without memory gets memory here: in this layout, or plain if
  /// copies of another dtype could not be made from this layout.
  BufferId parameter_in(const std::string& name, const Layout& layout, DType type = DType::f32);
  /// What layers read of a parameter with memory: CompileState::read_parameters.
  BufferId read_parameter(const Parameter& p);

  /// Makes a new buffer the result of the node.
  BufferId new_dst(const Layout& layout, DType type = DType::f32);
  void set_dst(BufferId b) { build_.values[node_] = b; }  ///< makes an existing buffer the result: a view of a source
  BufferId dst() const { return build_.values[node_]; }   ///< the result; no_buffer before new_dst() or set_dst()
  /// Numbers of the nodes that read the result of node n, each once.
  std::vector<int> readers(int n) const;
  /// Whether results may lie in buffers of later nodes, as place_result() has it. Not if values are made again for the
  /// backward pass: a value that several calls make is kept.
  bool places_results() const { return build_.places_results; }
  /// Makes the result of node n, a later one, a part of `whole` or all of it. The layer of that node must heed place().
  void place_result(int n, BufferId whole) { build_.places[n] = whole; }
  /// The buffer in which an earlier node wants this node's result to lie; no_buffer if the layer is free.
  BufferId place() const {
    const auto found = build_.places.find(node_);
    return found == build_.places.end() ? no_buffer : found->second;
  }
  /// Number of this node.
  int number() const { return node_; }
  /// Another node, after fusion.
  const Graph::Node& node_of(int n) const { return build_.nodes[static_cast<std::size_t>(n)]; }
  /// Whether a loss or the caller reads the result of node n.
  bool wants_f32_of(int n) const { return build_.wants_f32[static_cast<std::size_t>(n)]; }
  /// `append` will append calls to the update of the step, after the calls of the optimizer. Plans without an optimizer
  /// do not call `append`.
  void at_update(std::function<void(NodeBuilder&)> append) { build_.at_update.emplace_back(node_, std::move(append)); }
  /// The buffer for the next value of source i, which is a state (Graph::state). The buffer has memory outside the
  /// arena, like the state itself. Throws InputError if two layers replace one state.
  BufferId next_state(int i);
  /// A buffer for the workspace that forward writes and backward reads; no_buffer outside training and for 0 bytes.
  BufferId workspace(const ops::Primitive& p) {
    return training() ? new_bytes("workspace", p.workspace_bytes()) : no_buffer;
  }
};

/// Plans the backward pass of one layer (BackwardFn).
class BackwardBuilder : public NodeBuilder {
 public:
  /// Appends the sum of the gradients of the node's result, if several nodes read the result.
  BackwardBuilder(CompileState& build, int node);

  /// The gradient of this node's result, summed over the nodes that read the result; no_buffer for the loss. The buffer
  /// may be a part of a larger one (Program::is_part): the slice of a concatenation's gradient. diff_dst_in() gives ops
  /// that read no strides a buffer without gaps, in_order() others the slice itself.
  BufferId diff_dst() const { return diff_dst_; }
  /// Whether no other node reads the buffer diff_dst(), so that this node may change it. Calls that are appended later
  /// (at_update()) must not read the gradients of values.
  bool owns_diff_dst() const;
  /// The same gradient in this layout and dtype.
  BufferId diff_dst_in(const Layout& layout, DType type = DType::f32) { return converted(diff_dst_, layout, type); }
  /// A new buffer for this node's contribution to the gradient of source i, for the whole batch. The dtype may differ
  /// from the dtype of source i.
  BufferId new_diff_src(int i, const Layout& layout, DType type = DType::f32);
  /// Makes an existing buffer the contribution to the gradient of source i: diff_dst(), a view or a slice of it.
  void set_diff_src(int i, BufferId b) { build_.diffs[node().srcs[i]].push_back(b); }
  /// The buffer for a parameter's gradient, f32 and in `layout`. Call finish_gradients() after the call that writes the
  /// gradient. Gradients of nodes that share the parameter are added up.
  BufferId new_gradient(const std::string& parameter, const Layout& layout);
  /// Appends the reorders and sums that bring the gradients of new_gradient() to their final place.
  void finish_gradients();
  /// Whether to keep the gradient of this parameter as rows, if at most `count` rows are non-zero. True only if the
  /// parameter has rows, the optimizer takes rows, no other node has the parameter, and the exchange of all ranks' rows
  /// moves fewer bytes than the exchange of the whole gradient.
  bool use_sparse(const std::string& parameter, std::int64_t count) const;
  /// The buffers for such a gradient: plain (count) s32 and (count, width) f32, outside the arena.
  SparseGradient new_sparse_gradient(const std::string& parameter, std::int64_t count);
  /// The whole gradient that other nodes with the same parameter have made so far, to add to in place; no_buffer if no
  /// node has made a gradient yet.
  BufferId gradient_so_far(const std::string& parameter) const;
  /// Lets the optimizer observe the layer, if is_observed(). `window`: of a convolution, an empty kernel for a dense
  /// layer. `src`: the source. `diff_dst` returns the gradient of the products, and may append calls that make it. They
  /// run in the steps of observations alone, so nothing else may read what they write.
  void observe(const ops::ConvParams& window, BufferId src, const std::function<BufferId()>& diff_dst);
  /// The parameter in this layout and dtype. Throws if forward has not asked for the parameter.
  BufferId parameter_in(const std::string& name, const Layout& layout, DType type = DType::f32);

 private:
  BufferId diff_dst_ = no_buffer;
  struct Unfinished {
    BufferId made, gradient;
    bool add;  ///< to the gradient of other nodes
  };
  std::vector<Unfinished> unfinished_;  ///< gradients that are not at their final place yet
};

}  // namespace keelson
