#include "engine/graph/plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "engine/graph/async_readback.hpp"
#include "engine/graph/fuse.hpp"
#include "engine/graph/gradients.hpp"
#include "engine/graph/graph_executor.hpp"
#include "engine/graph/plan_report.hpp"
#include "engine/graph/updates.hpp"
#include "engine/ops/dense.hpp"
#include "engine/tensor/half.hpp"

namespace keelson {

namespace {

/// Whether a backend takes 16-bit operands and makes 16-bit results.
bool takes_half_activations(Context& context, DType type) {
  if (!is_half(type)) return false;
  const TensorDesc d{{8, 8}, type, Layout::any()};
  return context.try_make(ops::DenseDesc{{}, d, d, d}) != nullptr;
}

bool finite(Device& device, const Tensor& t) {
  if (!t || (t.dtype() != DType::f32 && !is_half(t.dtype()))) return true;
  std::vector<std::byte> host(t.bytes());
  device.copy_to_host(host.data(), t.raw(), t.bytes());
  for (std::size_t i = 0; i < static_cast<std::size_t>(t.stored_elements()); ++i) {
    const void* at = host.data() + i * size_of(t.dtype());
    const float value = t.dtype() == DType::f32    ? *static_cast<const float*>(at)
                        : t.dtype() == DType::bf16 ? to_float(*static_cast<const bf16*>(at))
                                                   : to_float(*static_cast<const f16*>(at));
    if (!std::isfinite(value)) return false;
  }
  return true;
}

}  // namespace

struct Plan::Impl {
  Impl(const Graph& graph, Parameters& parameters, const PlanOptions& options);

  Context& context() { return build.parameters.context(); }
  void require_room_for_inputs();
  BufferId external(const std::string& name, const TensorDesc& desc);
  void find_wanted_f32(const Graph& graph, const std::vector<int>& index);
  void add_inputs();
  std::vector<BackwardFn> plan_forward();
  void plan_outputs(const Graph& graph, const std::vector<int>& index);
  void plan_backward(const std::vector<BackwardFn>& backward);
  void finish();
  void bind();

  void read_input_from(const std::string& name, void* data);
  void run(std::size_t first, std::size_t last);
  void write_scale(const ops::LossScale& scale);
  bool exchanging() const { return loss_reduce != nullptr; }
  void finish_exchange();
  std::vector<float> whole(const SparseGradient& g);  ///< on the host, zero in the other rows
  std::string first_non_finite();

  PlanOptions options;
  CompileState build;
  int loss_node = -1;
  std::map<std::string, BufferId> outputs;
  std::unique_ptr<Gradients> gradients;
  std::unique_ptr<Collective> loss_reduce;
  std::vector<BoundCall> calls;  ///< of the program
  std::unique_ptr<GraphExecutor> replay;
  std::unique_ptr<AsyncReadback> post;
  std::size_t forward_end = 0, backward_end = 0, merge_end = 0;
  int bound_generation = -1;
  bool in_exchange = false;
};

Plan::Impl::Impl(const Graph& graph, Parameters& parameters, const PlanOptions& o) : options(o), build(parameters) {
  if (options.batch < 1) refuse("a batch of {}: expected at least 1 sample", options.batch);
  if (options.training && graph.loss() < 0)
    refuse("the network has no loss, so it cannot be trained: end it with mse(), mae(), ...");
  build.training = options.training;
  build.batch = options.batch;
  build.precision = options.precision;
  // The host looks at losses when a device has gone on already.
  build.checks_gradients = options.precision == Precision::fp16 || !context().device().host_accessible();
  build.ranks = options.communicator ? options.communicator->size() : 1;
  build.sparse_allowed = !options.optimizer || options.optimizer->moves_only_rows_with_gradient();
  FusedNodes fused = fuse(graph, options.training, options.fuse);
  build.nodes = std::move(fused.nodes);
  loss_node = graph.loss() < 0 ? -1 : fused.index[graph.loss()];
  const std::size_t count = build.nodes.size();
  build.values.assign(count, no_buffer);
  build.diffs.assign(count, {});
  build.wants_gradient.assign(count, false);
  build.wants_f32.assign(count, false);
  build.half_activations = takes_half_activations(context(), compute_type(build.precision));
  find_wanted_f32(graph, fused.index);

  add_inputs();
  const auto backward = plan_forward();
  plan_outputs(graph, fused.index);
  forward_end = build.program.calls().size();
  if (options.training) plan_backward(backward);
  finish();
}

/// Losses read f32, callers too; so do the nodes whose result keeps its sources' type for them.
void Plan::Impl::find_wanted_f32(const Graph& graph, const std::vector<int>& index) {
  for (const auto& [name, node] : graph.outputs()) build.wants_f32[index[node]] = true;
  for (int i = static_cast<int>(build.nodes.size()) - 1; i >= 0; --i) {
    const Graph::Node& n = build.nodes[i];
    if (n.srcs.empty()) continue;
    if (n.shape.dtype == DType::f64) build.wants_f32[n.srcs[0]] = true;
    if (build.wants_f32[i] && n.layer->keeps_type())
      for (int s : n.srcs) build.wants_f32[s] = true;
  }
}

BufferId Plan::Impl::external(const std::string& name, const TensorDesc& desc) {
  Buffer b;
  b.name = name;
  b.desc = desc;
  b.external = context().allocate(desc, name);
  return build.program.add(std::move(b));
}

void Plan::Impl::require_room_for_inputs() {
  const auto memory = context().device().memory();
  if (memory.total == 0) return;  // not known
  const auto available = static_cast<double>(memory.available);
  for (const Graph::Node& n : build.nodes) {
    if (!n.srcs.empty()) continue;
    double bytes = static_cast<double>(size_of(n.shape.dtype));
    for (const auto d : n.shape.at_batch(options.batch)) bytes *= static_cast<double>(d);
    if (bytes > available)
      throw OutOfMemory(
          fmt::format("out of memory: {} needs {:.1f} MiB for a batch of {}, but {:.1f} MiB are available on "
                      "{}; try a smaller batch or input, or more ranks",
                      n.name, bytes / (1 << 20), options.batch, available / (1 << 20), context().device().describe()));
  }
}

void Plan::Impl::add_inputs() {
  require_room_for_inputs();  // before memory is filled that will not do
  build.step_params = external("step state", TensorDesc::plain({sizeof(ops::StepParams)}, DType::u8));
  ops::LossScale scale;
  if (options.training && options.precision == Precision::fp16) scale.scale = 65536;
  write_scale(scale);
  build.loss = external("loss", TensorDesc::plain({1}, DType::f64));
  build.weight = external("weight", TensorDesc::plain({options.batch}));
  build.inputs["weight"] = build.weight;
  context().write_plain(build.program.buffer(build.weight).external, std::vector<float>(options.batch, 1.0f).data());
  for (std::size_t i = 0; i < build.nodes.size(); ++i) {
    const Graph::Node& n = build.nodes[i];
    if (!n.srcs.empty()) continue;
    const Shape shape = n.shape.at_batch(options.batch);
    // Images and volumes come from disk with channels last, and the fast convolutions read them so.
    const Layout layout = shape.rank() >= 4 ? Layout::channels_last(shape) : Layout::plain(shape);
    build.values[i] = build.inputs[n.name] = external(n.name, {shape, n.shape.dtype, layout});
  }
}

std::vector<BackwardFn> Plan::Impl::plan_forward() {
  std::vector<BackwardFn> backward(build.nodes.size());
  for (int i = 0; i < static_cast<int>(build.nodes.size()); ++i) {
    const Graph::Node& n = build.nodes[i];
    if (n.srcs.empty()) continue;
    std::vector<ValueShape> shapes;
    bool wants = false;
    for (int s : n.srcs) {
      shapes.push_back(build.nodes[s].shape);
      wants = wants || build.wants_gradient[s];
    }
    build.wants_gradient[i] = wants || !n.layer->parameters(shapes).empty();
    ForwardBuilder p(build, Phase::forward, i);
    backward[i] = n.layer->plan(p);
  }
  return backward;
}

void Plan::Impl::plan_outputs(const Graph& graph, const std::vector<int>& index) {
  for (const auto& [name, node] : graph.outputs()) {
    NodeBuilder e(build, Phase::forward, index[node]);
    const BufferId value = build.values[index[node]];
    const BufferId plain = e.in_layout(value, Layout::plain(e.desc(value).shape));
    build.program.buffer(plain).keep = true;
    outputs[name] = plain;
  }
}

void Plan::Impl::plan_backward(const std::vector<BackwardFn>& backward) {
  for (int i = loss_node; i >= 0; --i) {
    if (!build.wants_gradient[i] || !backward[i] || (i != loss_node && build.diffs[i].empty())) continue;
    BackwardBuilder b(build, i);
    backward[i](b);
  }
  gradients = std::make_unique<Gradients>(build, options.bucket_bytes, options.communicator);
  gradients->insert_exchange(build.program);
  if (options.communicator && options.communicator->size() > 1)
    loss_reduce =
        options.communicator->make_allreduce(build.program.buffer(build.loss).external.data<double>(), 1, "loss");
}

void Plan::Impl::finish() {
  backward_end = build.program.calls().size();
  if (gradients) gradients->append_merge(build);
  merge_end = build.program.calls().size();
  if (options.training && options.optimizer) append_updates(build, *options.optimizer, gradients->block());
  build.program.place();
  build.parameters.arena().reserve(build.program.arena_bytes());
  bind();
  replay = std::make_unique<GraphExecutor>(build.program, calls, context().device(),
                                           std::vector<std::size_t>{0, forward_end, backward_end, merge_end});
  post = std::make_unique<AsyncReadback>(context().device());
}

void Plan::Impl::bind() {
  Arena& arena = build.parameters.arena();
  if (bound_generation == arena.generation()) return;
  calls = build.program.bind(arena.data());
  bound_generation = arena.generation();
  if (replay) replay->forget();
}

void Plan::Impl::read_input_from(const std::string& name, void* data) {
  const BufferId input = build.inputs.at(name);
  Buffer& buffer = build.program.buffer(input);
  if (buffer.external.raw() == data) return;
  buffer.external = Tensor(buffer.desc, data);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Call& call = build.program.calls()[i];
    bool moved = false;
    for (std::size_t o = 0; o < call.operands.size(); ++o) {
      const BufferId id = call.operands[o].id;
      if (id == no_buffer || build.program.root(id) != input) continue;
      calls[i].tensors[o] = Tensor(build.program.buffer(id).desc, data);
      moved = true;
    }
    if (moved) calls[i].run = call.computation()->bind(calls[i].tensors.data());
  }
  replay->forget();
}

void Plan::Impl::run(std::size_t first, std::size_t last) {
  replay->run(first, last, in_exchange ? options.communicator : nullptr);
}

void Plan::Impl::write_scale(const ops::LossScale& scale) {
  ops::StepParams initial;
  initial.scaling = scale;
  context().device().copy_from_host(build.program.buffer(build.step_params).external.raw(), &initial, sizeof initial);
}

void Plan::Impl::finish_exchange() {
  if (!in_exchange) return;
  gradients->wait();
  loss_reduce->wait();
  in_exchange = false;
  run(backward_end, merge_end);
}

std::vector<float> Plan::Impl::whole(const SparseGradient& g) {
  const Tensor &rows = build.program.buffer(g.rows).external, &values = build.program.buffer(g.values).external;
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(g.count));
  std::vector<float> compact(static_cast<std::size_t>(values.elements()));
  context().device().copy_to_host(numbers.data(), rows.raw(), rows.bytes());
  context().device().copy_to_host(compact.data(), values.raw(), values.bytes());
  const Shape shape = build.parameters.at(g.parameter).shape;
  const auto width = static_cast<std::size_t>(shape[1]);
  std::vector<float> plain(static_cast<std::size_t>(shape.elements()));
  for (std::size_t m = 0; m < numbers.size(); ++m)
    if (numbers[m] >= 0) std::copy_n(&compact[m * width], width, &plain[static_cast<std::size_t>(numbers[m]) * width]);
  return plain;
}

std::string Plan::Impl::first_non_finite() {
  Device& device = context().device();
  for (const auto& [name, buffer] : build.inputs)
    if (!finite(device, build.program.buffer(buffer).external)) return "input " + name;
  for (const Parameter& p : build.parameters.all())
    if (!finite(device, p.value)) return "parameter " + p.name;
  for (std::size_t i = 0; i < forward_end; ++i) {
    const Call& call = build.program.calls()[i];
    calls[i].run();
    for (std::size_t o = 0; o < call.operands.size(); ++o)
      if (call.operands[o].writes() && call.operands[o].access != ops::Access::scratch &&
          !finite(device, calls[i].tensors[o]))
        return "layer " + call.node;
  }
  double loss = 0;
  device.copy_to_host(&loss, build.program.buffer(build.loss).external.raw(), sizeof loss);
  return std::isfinite(loss) ? "" : "layer loss";
}

Plan::Plan(const Graph& graph, Parameters& parameters, const PlanOptions& options)
    : impl_(std::make_unique<Impl>(graph, parameters, options)) {}
Plan::~Plan() = default;

Tensor Plan::input(const std::string& name) const {
  const auto found = impl_->build.inputs.find(name);
  if (found == impl_->build.inputs.end()) fail("the network has no input '{}'", name);
  return impl_->build.program.buffer(found->second).external;
}

void Plan::read_input_from(const std::string& name, void* data) {
  KEELSON_EXPECT(impl_->context().device().host_accessible() && impl_->build.inputs.contains(name));
  impl_->bind();
  impl_->read_input_from(name, data);
}

Tensor Plan::output(const std::string& name) const {
  const auto found = impl_->outputs.find(name);
  if (found == impl_->outputs.end()) fail("the network has no output '{}'", name);
  return impl_->build.program.tensor(found->second, impl_->build.parameters.arena().data());
}

std::int64_t Plan::batch() const { return impl_->options.batch; }

void Plan::forward(const ops::StepParams& state) {
  impl_->finish_exchange();
  impl_->bind();
  // The device keeps what follows.
  impl_->context().device().copy_from_host(impl_->build.program.buffer(impl_->build.step_params).external.raw(), &state,
                                           offsetof(ops::StepParams, scaling));
  impl_->run(0, impl_->forward_end);
}

void Plan::backward() {
  KEELSON_EXPECT(impl_->options.training);
  if (impl_->exchanging()) {
    impl_->in_exchange = true;
    impl_->loss_reduce->start();
  }
  impl_->run(impl_->forward_end, impl_->backward_end);
}

void Plan::finish_exchange() { impl_->finish_exchange(); }

void Plan::update() {
  KEELSON_EXPECT(impl_->options.optimizer);
  impl_->finish_exchange();
  impl_->run(impl_->merge_end, impl_->build.program.calls().size());
}

void Plan::carry_states() {
  auto& build = impl_->build;
  for (const auto& [node, next] : build.next_states) {
    const Tensor &from = build.program.buffer(next).external, &to = build.program.buffer(build.values[node]).external;
    impl_->context().device().copy(to.raw(), from.raw(), to.bytes());
  }
}

void Plan::reset_states() {
  auto& build = impl_->build;
  for (const auto& [node, next] : build.next_states) {
    const Tensor& t = build.program.buffer(build.values[node]).external;
    impl_->context().device().zero(t.raw(), t.bytes());
  }
}

std::vector<std::string> Plan::states() const {
  std::vector<std::string> names;
  for (const auto& [node, next] : impl_->build.next_states) names.push_back(impl_->build.nodes[node].name);
  return names;
}

double Plan::loss() const {
  impl_->finish_exchange();
  double value = 0;
  impl_->context().device().copy_to_host(&value, impl_->build.program.buffer(impl_->build.loss).external.raw(),
                                         sizeof value);
  return value;
}

void Plan::start_readback() {
  impl_->finish_exchange();
  auto& program = impl_->build.program;
  impl_->post->send(program.buffer(impl_->build.loss).external, program.buffer(impl_->build.step_params).external);
}

Plan::StepResult Plan::take_readback() { return impl_->post->take(impl_->options.communicator); }

ops::LossScale Plan::loss_scale() const {
  ops::StepParams state;
  impl_->context().device().copy_to_host(&state, impl_->build.program.buffer(impl_->build.step_params).external.raw(),
                                         sizeof state);
  return state.scaling;
}

bool Plan::checks_gradients() const { return impl_->build.checks_gradients; }

void Plan::set_loss_scale(const ops::LossScale& scale) { impl_->write_scale(scale); }

std::vector<float> Plan::gradient(const std::string& parameter) const {
  impl_->finish_exchange();
  for (const auto& [name, buffer] : impl_->build.gradients) {
    if (name != parameter) continue;
    const Tensor& t = impl_->build.program.buffer(buffer).external;
    std::vector<float> plain(static_cast<std::size_t>(t.elements()));
    impl_->context().read_plain(t, plain.data());
    return plain;
  }
  for (const SparseGradient& g : impl_->build.sparse_gradients)
    if (g.parameter == parameter) return impl_->whole(g);
  fail("no gradient flows to a parameter '{}'", parameter);
}

std::string Plan::first_non_finite() { return impl_->first_non_finite(); }

void Plan::set_profiling(bool on) { impl_->replay->set_profiling(on); }

std::vector<PlanRow> Plan::rows() const { return plan_rows(impl_->build.program, impl_->calls); }
std::vector<std::string> Plan::reorders() const { return plan_reorders(impl_->build.program); }
std::vector<std::pair<std::string, std::size_t>> Plan::memory() const {
  return memory_of(impl_->build, impl_->gradients ? impl_->gradients->block() : Tensor());
}
std::size_t Plan::arena_bytes() const { return impl_->build.program.arena_bytes(); }
std::size_t Plan::arena_lower_bound() const { return impl_->build.program.lower_bound(); }
std::uint64_t Plan::hash() const { return plan_hash(impl_->build.program); }

void Plan::print(std::ostream& out, const DevicePeaks* peaks) const {
  print_plan(out, *this, impl_->build.parameters, impl_->gradients ? impl_->gradients->buckets().size() : 0, peaks);
}

}  // namespace keelson
