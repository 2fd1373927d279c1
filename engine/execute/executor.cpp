#include "engine/execute/executor.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "engine/base/counted.hpp"
#include "engine/base/trace.hpp"
#include "engine/execute/async_readback.hpp"
#include "engine/execute/bindings.hpp"
#include "engine/execute/culprit.hpp"
#include "engine/execute/graph_executor.hpp"
#include "engine/execute/micro_batches.hpp"
#include "engine/tensor/half.hpp"

namespace keelson {

namespace {

double median(std::vector<float> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Where passes of a step begin, and calls that do not run in every step.
std::vector<std::size_t> cuts_of(const CompiledGraph& c) {
  std::vector<std::size_t> cuts{0, c.phase_ends.forward, c.phase_ends.backward, c.phase_ends.exchange};
  for (const std::size_t call : c.noise.calls) cuts.insert(cuts.end(), {call, call + 1});
  return cuts;
}

}  // namespace

/// The memory of a micro-batch in flight, and the calls bound to it.
struct Executor::Slot {
  /// `first`: the slot with which this one shares what micro-batches share; null: this is the first.
  Slot(const CompiledGraph& c, Parameters& parameters, const std::shared_ptr<Arena>& arena, const Slot* first)
      : bindings(c, parameters, arena, first ? &first->bindings : nullptr),
        calls(c.program, bindings.calls(), c.context.device(), cuts_of(c)) {}
  void refresh() {
    if (bindings.refresh()) calls.forget();
  }

  Bindings bindings;
  GraphExecutor calls;
};

struct Executor::Impl {
  Impl(const Plan& p, const CompiledGraph& c, Parameters& values, const ExecutorOptions& options)
      : plan(p),
        compiled(c),
        parameters(values),
        instance(c.context.device().current_instance().shared_from_this()),
        arena(options.arena ? options.arena : values.arena()),
        first(c, values, arena, nullptr),
        bindings(first.bindings),
        readback(c.context.device(), c.sample_loss == no_buffer ? 0 : c.options.batch) {
    for (std::int64_t i = 1; i < p.in_flight(); ++i)
      later.push_back(std::make_unique<Slot>(c, values, std::make_shared<Arena>(c.context), &first));
    ops::LossScale scale;
    if (c.options.training && c.options.precision == Precision::fp16) scale.scale = 65536;
    write_scale(scale);
    const std::vector<float> ones(static_cast<std::size_t>(c.options.micro_batch_size()), 1.0f);
    for_each_slot([&](Slot& s) { c.context.write_plain(s.bindings.tensor(c.weight), ones.data()); });
    prepare_micro_batches();
    if (c.sample_loss != no_buffer && p.micro_batches() > 1)
      sample_losses = device().allocate(static_cast<std::size_t>(c.options.batch) * sizeof(float), "losses of samples");
  }

  Device& device() { return compiled.context.device(); }
  void prepare_micro_batches();
  bool exchanges() const { return compiled.program.channels() > 0; }
  /// All ranks of the grid; null: this rank is alone.
  Communicator* ranks() const {
    const ProcessGrid* grid = compiled.options.grid;
    return grid && grid->has_ranks() && grid->world().size() > 1 ? &grid->world() : nullptr;
  }
  /// Of a micro-batch.
  Slot& slot(std::int64_t number) {
    const auto i = static_cast<std::size_t>(number) % (later.size() + 1);
    return i == 0 ? first : *later[i - 1];
  }
  void for_each_slot(const std::function<void(Slot&)>& call) {
    call(first);
    for (const auto& s : later) call(*s);
  }
  void run(Slot& of, std::size_t begin, std::size_t end) {
    Communicator* const ranks = exchanges() ? this->ranks() : others;
    ProgressEngine* const progress = ranks ? &ranks->progress() : nullptr;
    if (!part_weights) {
      for (const std::size_t call : compiled.noise.calls) {
        if (call < begin || call >= end) continue;
        of.calls.run(begin, call, step, progress);
        begin = call + 1;
      }
    }
    of.calls.run(begin, end, step, progress);
  }
  void refresh() {
    for_each_slot([](Slot& s) { s.refresh(); });
  }
  /// Runs the phase exchange. The exchange of buckets that updates wait for may go on.
  void run_exchange() {
    if (!in_exchange) return;
    const TraceSpan span("exchange", "phase");
    run(first, compiled.phase_ends.backward, compiled.phase_ends.exchange);
    in_exchange = false;
  }
  /// Waits for all gradients; a second wait for the same collective returns at once.
  void finish_gradients() {
    run_exchange();
    const auto& all = compiled.program.calls();
    for (std::size_t i = compiled.phase_ends.exchange; i < all.size(); ++i)
      if (const auto* c = all[i].communication(); c && c->step == Communication::Step::wait) bindings.calls()[i].run();
  }
  /// Also for the exchanges of parameters that the update has started.
  void finish_exchange() {
    finish_gradients();
    for (std::size_t i = compiled.phase_ends.exchange; i < bindings.calls().size(); ++i)
      if (const auto& c = bindings.calls()[i].collective) c->wait();
  }
  /// Of all micro-batches; null without PlanOptions::sample_losses.
  const void* losses_of_samples() const {
    return sample_losses ? sample_losses.get() : bindings.tensor(compiled.sample_loss).raw();
  }
  /// Puts those of a micro-batch beside those of the others, before the next one overwrites them.
  void keep_sample_losses(std::int64_t number) {
    if (!sample_losses) return;
    const Tensor own = bindings.tensor(compiled.sample_loss);
    device().copy(static_cast<std::byte*>(sample_losses.get()) + static_cast<std::size_t>(number) * own.bytes(),
                  own.raw(), own.bytes());
  }
  void write_scale(const ops::LossScale& scale) {
    if (compiled.loss_scale != no_buffer)
      device().copy_from_host(bindings.tensor(compiled.loss_scale).raw(), &scale, sizeof scale);
  }
  std::vector<float> whole(const SparseGradient& g);  ///< dense copy on the host, zero in the other rows
  std::string first_non_finite(std::span<const std::int64_t> samples);
  /// Behind the last micro-batch: for the sum over ranks.
  void write_part_weights() {
    const Tensor sums = bindings.tensor(compiled.noise.parts);
    device().copy_from_host(sums.data<double>() + sums.elements() - 1, &*part_weights, sizeof(double));
  }
  std::vector<double> doubles(BufferId buffer) {
    const Tensor t = bindings.tensor(buffer);
    std::vector<double> values(static_cast<std::size_t>(t.elements()));
    device().copy_to_host(values.data(), t.raw(), t.bytes());
    return values;
  }

  std::unique_ptr<const Plan> own_plan;  ///< outlives the bindings
  const Plan& plan;
  const CompiledGraph& compiled;
  Parameters& parameters;
  const std::shared_ptr<ExecutionInstance> instance;
  const std::shared_ptr<Arena> arena;
  Slot first;                                ///< also runs what micro-batches share: exchange and update
  Bindings& bindings;                        ///< of the first slot
  std::vector<std::unique_ptr<Slot>> later;  ///< of further micro-batches in flight
  AsyncReadback readback;
  std::shared_ptr<void> sample_losses;  ///< (batch) f32, if there are several micro-batches
  Communicator* others = nullptr;       ///< set_progress()
  bool in_exchange = false;
  std::int64_t micro_batch = 0;         ///< micro-batch of the last forward()
  std::uint64_t step = 0;               ///< number of the step of the last forward()
  std::optional<double> part_weights;   ///< measure_gradients()
  std::vector<MicroBatchSums> sums;     ///< sums of gradients and loss; empty with one micro-batch
  std::vector<MicroBatchState> states;  ///< in the order of CompiledGraph::states; empty with one micro-batch
};

/// What a function of the executor holds while it queues work: the instance, and its turn on what executors share.
class Executor::Turn {
 public:
  explicit Turn(Impl& e) : scope_(*e.instance), lock_(e.compiled.turns->mutex) {
    e.compiled.turns->order.take_turn(*e.instance);
    e.arena->order().take_turn(*e.instance);
    e.parameters.take_turn();
  }

 private:
  const InstanceScope scope_;
  const std::unique_lock<std::mutex> lock_;
};

void Executor::Impl::prepare_micro_batches() {
  const std::int64_t count = plan.micro_batches();
  if (count == 1) return;
  for (const auto& s : compiled.states) states.emplace_back(compiled.context, bindings.tensor(s.value), count, s.name);
  if (!compiled.options.training) return;
  for (const Tensor& value :
       {bindings.gradients(), bindings.tensor(compiled.loss), bindings.tensor(compiled.noise.parts)})
    if (value)
      sums.emplace_back(compiled.context, value, count,
                        compiled.options.exchange.reproducible ? SumOrder::tree : SumOrder::any);
}

std::vector<float> Executor::Impl::whole(const SparseGradient& g) {
  const Tensor rows = bindings.tensor(g.rows), values = bindings.tensor(g.values);
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(g.count));
  std::vector<float> compact(static_cast<std::size_t>(values.elements()));
  device().copy_to_host(numbers.data(), rows.raw(), rows.bytes());
  device().copy_to_host(compact.data(), values.raw(), values.bytes());
  const Shape shape = parameters.at(g.parameter).held_shape();
  const auto width = static_cast<std::size_t>(shape[1]);
  std::vector<float> plain(static_cast<std::size_t>(shape.elements()));
  for (std::size_t m = 0; m < numbers.size(); ++m)
    if (numbers[m] >= 0) std::copy_n(&compact[m * width], width, &plain[static_cast<std::size_t>(numbers[m]) * width]);
  return plain;
}

std::string Executor::Impl::first_non_finite(std::span<const std::int64_t> samples) {
  std::string found;
  const Bindings& here = slot(micro_batch).bindings;
  for (const auto& [name, buffer] : compiled.inputs) {
    const auto numbers = compiled.whole_numbers.find(name);
    if (found.empty())
      found = wrong_input(device(), name, here.tensor(buffer),
                          numbers == compiled.whole_numbers.end() ? nullptr : &numbers->second, samples);
  }
  for (const Parameter& p : parameters.all())
    if (found.empty() && !is_finite(device(), p.value)) found = "parameter " + p.name;
  // Forward always runs to its end: other ranks wait for this rank in its collectives.
  for (std::size_t i = 0; i < compiled.phase_ends.forward; ++i) {
    const Call& call = compiled.program.calls()[i];
    const BoundCall& bound = here.calls()[i];
    bound.run();
    for (std::size_t o = 0; found.empty() && o < call.operands.size(); ++o)
      if (call.operands[o].writes() && call.operands[o].access != ops::Access::scratch &&
          !is_finite(device(), bound.tensors[o]))
        found = "layer " + call.node;
  }
  if (!found.empty()) return found;
  double loss = 0;
  device().copy_to_host(&loss, bindings.tensor(compiled.loss).raw(), sizeof loss);
  return std::isfinite(loss) ? "" : "layer loss";
}

Executor::Executor(const Plan& plan, Parameters& parameters, const ExecutorOptions& options) {
  ExecutionInstance& instance = options.instance ? *options.instance : plan.context().device().current_instance();
  if (instance.concurrency() != plan.compiled_->concurrency)
    fail(
        "the plan was made for {}, and the execution instance has {}: make the plan in an InstanceScope of this "
        "instance",
        counted(plan.compiled_->concurrency, "thread"), instance.concurrency());
  const InstanceScope scope(instance);
  impl_ = std::make_unique<Impl>(plan, *plan.compiled_, parameters, options);
}
Executor::Executor(const Graph& graph, Parameters& parameters, const PlanOptions& options) {
  auto plan = std::make_unique<const Plan>(graph, parameters, options);
  impl_ = std::make_unique<Impl>(*plan, *plan->compiled_, parameters, ExecutorOptions{});
  impl_->own_plan = std::move(plan);
}
Executor::~Executor() = default;

const Plan& Executor::plan() const { return impl_->plan; }

Tensor Executor::input(const std::string& name, std::int64_t micro_batch) const {
  const auto found = impl_->compiled.inputs.find(name);
  if (found == impl_->compiled.inputs.end()) fail("the network has no input '{}'", name);
  for (std::size_t i = 0; i < impl_->states.size(); ++i)
    if (impl_->compiled.states[i].name == name) return impl_->states[i].all();
  return impl_->slot(micro_batch).bindings.tensor(found->second);
}

void Executor::read_input_from(const std::string& name, void* data, std::int64_t micro_batch) {
  const Turn turn(*impl_);
  KEELSON_EXPECT(impl_->device().shares_host_memory() && impl_->compiled.inputs.contains(name));
  impl_->refresh();
  const BufferId buffer = impl_->compiled.inputs.at(name);
  Slot& slot = impl_->slot(micro_batch);
  if (slot.bindings.tensor(buffer).raw() == data) return;
  slot.bindings.move(buffer, data);
  slot.calls.forget();
}

bool Executor::has_outputs() const {
  const PlanOptions& o = plan().options();
  constexpr auto axis = ProcessGrid::Axis::stage;
  return !o.has_stages() || o.grid->coordinate(axis) + 1 == o.grid->extent(axis);
}

Tensor Executor::output(const std::string& name) const {
  const auto found = impl_->compiled.outputs.find(name);
  if (found == impl_->compiled.outputs.end()) fail("the network has no output '{}'", name);
  return impl_->bindings.tensor(found->second);
}

void Executor::forward(const ops::StepParams& params, std::int64_t micro_batch) {
  const Turn turn(*impl_);
  KEELSON_EXPECT(micro_batch >= 0 && micro_batch < plan().micro_batches());
  if (!impl_->compiled.options.lag) impl_->finish_gradients();
  const TraceSpan span("forward", "phase");
  impl_->refresh();
  impl_->micro_batch = micro_batch;
  impl_->step = params.step;
  ops::StepParams here = params;
  here.sample_offset += micro_batch * plan().options().micro_batch_size();
  Slot& slot = impl_->slot(micro_batch);
  impl_->device().copy_from_host(slot.bindings.tensor(impl_->compiled.step_params).raw(), &here, sizeof here);
  const auto& states = impl_->compiled.states;
  for (std::size_t i = 0; i < impl_->states.size(); ++i)
    impl_->states[i].load(micro_batch, slot.bindings.tensor(states[i].value));
  impl_->run(slot, 0, impl_->compiled.phase_ends.forward);
  for (std::size_t i = 0; i < impl_->states.size(); ++i)
    impl_->states[i].keep(micro_batch, slot.bindings.tensor(states[i].next));
  impl_->keep_sample_losses(micro_batch);
}

void Executor::backward() { backward(impl_->micro_batch); }

void Executor::backward(std::int64_t micro_batch) {
  const Turn turn(*impl_);
  const TraceSpan span("backward", "phase");
  KEELSON_EXPECT(impl_->compiled.options.training && micro_batch >= 0 && micro_batch <= impl_->micro_batch);
  const bool last = micro_batch + 1 == plan().micro_batches();
  impl_->in_exchange = last && impl_->exchanges();
  impl_->run(impl_->slot(micro_batch), impl_->compiled.phase_ends.forward, impl_->compiled.phase_ends.backward);
  for (MicroBatchSums& sum : impl_->sums) sum.add(micro_batch);
  if (last && impl_->part_weights) impl_->write_part_weights();
}

void Executor::finish_exchange() const {
  const Turn turn(*impl_);
  impl_->finish_exchange();
}

void Executor::update() {
  const Turn turn(*impl_);
  KEELSON_EXPECT(impl_->compiled.options.optimizer);
  impl_->run_exchange();
  if (impl_->part_weights) impl_->finish_gradients();  // which the first calls of the update read
  const TraceSpan span("update", "phase");
  impl_->run(impl_->first, impl_->compiled.phase_ends.exchange, impl_->compiled.program.calls().size());
}

void Executor::carry_states() {
  const Turn turn(*impl_);
  for (MicroBatchState& state : impl_->states) state.carry();
  if (!impl_->states.empty()) return;
  for (const auto& state : impl_->compiled.states) {
    const Tensor from = impl_->bindings.tensor(state.next), to = impl_->bindings.tensor(state.value);
    impl_->device().copy(to.raw(), from.raw(), to.bytes());
  }
}

void Executor::reset_states() {
  const Turn turn(*impl_);
  for (MicroBatchState& state : impl_->states) state.reset();
  for (const auto& state : impl_->compiled.states) {
    const Tensor t = impl_->bindings.tensor(state.value);
    impl_->device().zero(t.raw(), t.bytes());
  }
}

std::vector<std::string> Executor::states() const {
  std::vector<std::string> names;
  for (const auto& state : impl_->compiled.states) names.push_back(state.name);
  return names;
}

double Executor::loss() const {
  const Turn turn(*impl_);
  impl_->run_exchange();
  double value = 0;
  impl_->device().copy_to_host(&value, impl_->bindings.tensor(impl_->compiled.loss).raw(), sizeof value);
  return value;
}

std::vector<float> Executor::sample_losses() const {
  const Turn turn(*impl_);
  if (impl_->compiled.sample_loss == no_buffer) return {};
  std::vector<float> losses(static_cast<std::size_t>(plan().batch()));
  impl_->device().copy_to_host(losses.data(), impl_->losses_of_samples(), losses.size() * sizeof(float));
  return losses;
}

void Executor::start_readback() {
  const Turn turn(*impl_);
  impl_->run_exchange();
  impl_->readback.send(impl_->bindings.tensor(impl_->compiled.loss), impl_->bindings.tensor(impl_->compiled.loss_scale),
                       impl_->losses_of_samples());
}

Executor::StepResult Executor::take_readback() {
  const InstanceScope scope(*impl_->instance);  // the wait uses nothing that executors share
  const TraceSpan span("wait for the loss", "phase");
  return impl_->readback.take(impl_->ranks());
}

double Executor::take_exchange_seconds() {
  double seconds = 0;
  impl_->for_each_slot([&](Slot& s) { seconds += s.calls.take_waited(); });
  return seconds;
}

void Executor::measure_gradients(std::optional<double> part_weights) {
  KEELSON_EXPECT(impl_->compiled.options.noise_scale);
  impl_->part_weights = part_weights;
}

Executor::GradientSquares Executor::gradient_squares() const {
  const ops::LossScale scale = loss_scale();
  const Turn turn(*impl_);
  KEELSON_EXPECT(impl_->part_weights);
  const double unscale = static_cast<double>(scale.unscale) * static_cast<double>(scale.unscale);
  GradientSquares squares{.finite = scale.skip == 0};
  const auto parts = impl_->doubles(impl_->compiled.noise.parts);
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) squares.parts += unscale * parts[i];
  squares.part_weights = parts.back();
  for (const double sum : impl_->doubles(impl_->compiled.noise.whole)) squares.whole += unscale * sum;
  return squares;
}

ops::LossScale Executor::loss_scale() const {
  const Turn turn(*impl_);
  ops::LossScale scale;
  const Tensor t = impl_->bindings.tensor(impl_->compiled.loss_scale);
  if (t) impl_->device().copy_to_host(&scale, t.raw(), sizeof scale);
  return scale;
}

void Executor::set_loss_scale(const ops::LossScale& scale) {
  const Turn turn(*impl_);
  impl_->write_scale(scale);
}

bool Executor::has_gradient(const std::string& parameter) const {
  const auto& c = impl_->compiled;
  return std::ranges::any_of(c.gradients, [&](const auto& g) { return g.first == parameter; }) ||
         std::ranges::any_of(c.sparse_gradients, [&](const SparseGradient& g) { return g.parameter == parameter; });
}

std::vector<float> Executor::gradient(const std::string& parameter) const {
  const Turn turn(*impl_);
  if (!impl_->compiled.parameter_block.places.empty())
    fail("{}: each rank has a shard of the gradients alone (ExchangeOptions::shards)", parameter);
  impl_->finish_exchange();
  for (const auto& [name, buffer] : impl_->compiled.gradients) {
    if (name != parameter) continue;
    const Tensor t = impl_->bindings.tensor(buffer);
    std::vector<float> plain(static_cast<std::size_t>(t.elements()));
    impl_->compiled.context.read_plain(t, plain.data());
    return plain;
  }
  for (const SparseGradient& g : impl_->compiled.sparse_gradients)
    if (g.parameter == parameter) return impl_->whole(g);
  fail("no gradient flows to a parameter '{}'", parameter);
}

std::string Executor::first_non_finite(std::span<const std::int64_t> samples) {
  const Turn turn(*impl_);
  return impl_->first_non_finite(samples);
}

void Executor::set_progress(Communicator* ranks) { impl_->others = ranks; }

void Executor::set_profiling(bool on) {
  impl_->for_each_slot([&](Slot& s) { s.calls.set_profiling(on); });
}

std::vector<PlanRow> Executor::rows() const {
  auto rows = impl_->plan.rows();
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].milliseconds = median(impl_->bindings.calls()[i].milliseconds);
  return rows;
}

void Executor::print(std::ostream& out, const DevicePeaks* peaks) const {
  const auto measured = rows();
  impl_->plan.print(out, peaks, &measured);
}

}  // namespace keelson
