#include <algorithm>
#include <bit>
#include <functional>
#include <optional>

#include "engine/base/counted.hpp"
#include "engine/base/ranks.hpp"
#include "engine/ops/dense.hpp"
#include "engine/ops/loss_scale.hpp"
#include "engine/ops/step_params.hpp"
#include "engine/plan/compiled_graph.hpp"
#include "engine/plan/fuse.hpp"
#include "engine/plan/gradients.hpp"
#include "engine/plan/independent_calls.hpp"
#include "engine/plan/input_descs.hpp"
#include "engine/plan/overlap_messages.hpp"
#include "engine/plan/overlap_weight_gradients.hpp"
#include "engine/plan/plan_report.hpp"
#include "engine/plan/recompute.hpp"
#include "engine/plan/stage_parts.hpp"
#include "engine/plan/updates.hpp"
#include "engine/tune/tuning_ranks.hpp"

namespace keelson {

namespace {

/// Whether a backend takes 16-bit operands and makes 16-bit results.
bool takes_half_activations(Context& context, DType type) {
  if (!is_half(type)) return false;
  const TensorDesc d{{8, 8}, type, Layout::any()};
  return context.try_make(ops::DenseDesc{{}, d, d, d}) != nullptr;
}

/// Throws InputError for layers that compute with several samples together, if a step has several micro-batches.
void require_separate_samples(const Graph& graph, const std::string& reason) {
  for (const Graph::Node& n : graph.nodes())
    if (!n.srcs.empty() && n.layer->mixes_samples())
      refuse(
          "the layer {} ({}) computes with all samples of a batch together, but {}: leave this option out, or train a "
          "network without such layers",
          n.name, n.layer->kind(), reason);
}

/// Throws InputError if PlanOptions::micro_batch_count is not possible.
void require_micro_batches(const Graph& graph, const PlanOptions& options) {
  const std::int64_t count = options.micro_batch_count;
  if (count == 1) return;
  if (count < 1 || options.batch % count != 0)
    refuse(
        "{} micro-batches (--micro-batches) of a batch of {} samples per replica: the batch must be a multiple of the "
        "number of micro-batches. Give another --micro-batches or --batch",
        count, options.batch);
  if (!options.training) return;
  if (options.exchange.reproducible)
    refuse(
        "micro-batches (--micro-batches) with reproducible sums (--reproducible), which compute samples one by one "
        "already: leave one of the two options out");
  if (options.exchange.shards == OptimizerShards::gradients)
    refuse(
        "micro-batches (--micro-batches) add up whole gradients, but each rank keeps a shard of the gradients alone: "
        "give --shard-optimizer moments");
  require_separate_samples(graph, "micro-batches (--micro-batches) are parts of the batch computed one by one");
}

/// Throws InputError if ExchangeOptions::reproducible is not possible.
void require_tree(const Graph& graph, const PlanOptions& options, int ranks, int space) {
  if (space > 1)
    refuse(
        "reproducible sums (--reproducible) on {} to a replica (--spatial): parts of samples are summed in another "
        "order than whole samples. Leave one of the two options out",
        counted(space, "rank"));
  const auto power_of_two = [](std::int64_t n) { return std::has_single_bit(static_cast<std::uint64_t>(n)); };
  if (!power_of_two(options.batch) || !power_of_two(ranks))
    refuse(
        "reproducible sums (--reproducible) take a number of samples per rank and a number of ranks that are powers of "
        "two; found a batch of {} on each of {}. Give another --batch (or --global-batch) or number of ranks",
        options.batch, counted(ranks, "rank"));
  if (options.exchange.wire != Wire::fp32)
    refuse("reproducible sums (--reproducible) are exchanged in fp32: leave --wire bf16 or fp16 out");
  require_separate_samples(graph, "reproducible sums (--reproducible) are of samples computed one by one");
}

/// Throws InputError if ExchangeOptions::shards is not possible.
void require_shards(const PlanOptions& options) {
  if (options.exchange.wire != Wire::fp32)
    refuse("shards of the optimizer (--shard-optimizer) are exchanged in fp32: leave --wire bf16 or fp16 out");
  if (options.lag)
    refuse("shards of the optimizer (--shard-optimizer) need gradients of the same step: leave --sync lag out");
  if (options.optimizer->reads_ahead())
    refuse(
        "shards of the optimizer (--shard-optimizer): layers read the state of this optimizer, which then lies on "
        "other ranks. Leave --shard-optimizer out, or take another optimizer, e.g. adamw");
  if (options.exchange.reproducible && options.exchange.shards == OptimizerShards::gradients)
    refuse(
        "reproducible sums (--reproducible) add up whole gradients of samples computed one by one, but each rank "
        "keeps a shard of the gradients alone: give --shard-optimizer moments");
}

/// Throws InputError for what ranks that share channels cannot do.
void require_channels(const PlanOptions& options) {
  if (options.exchange.reproducible)
    refuse(
        "reproducible sums (--reproducible) with parts of channels (--channel-parallel), which are summed in another "
        "order than whole layers: leave one of the two options out");
  if (options.exchange.shards != OptimizerShards::none)
    refuse(
        "shards of the optimizer (--shard-optimizer) with parts of channels (--channel-parallel): leave one of the two "
        "options out");
  if (options.lag)
    refuse("parts of channels (--channel-parallel) need gradients of the same step: leave --sync lag out");
}

/// Throws InputError for what stages cannot do.
void require_stages(const PlanOptions& options) {
  if (options.exchange.reproducible)
    refuse(
        "reproducible sums (--reproducible) with stages (--stages), whose micro-batches are summed one after the "
        "other: leave one of the two options out");
  if (options.exchange.shards != OptimizerShards::none)
    refuse("shards of the optimizer (--shard-optimizer) with stages (--stages): leave one of the two options out");
  if (options.lag) refuse("stages (--stages) need gradients of the same step: leave --sync lag out");
}

/// Throws InputError for what an optimizer that observes layers cannot do.
void require_observable(const Graph& graph, const PlanOptions& options) {
  const auto observes = [&](const ParameterSpec& p) {
    return p.product_inputs > 0 && options.optimizer->observes(p.shape, p.product_inputs);
  };
  if (!options.training || !options.optimizer || std::ranges::none_of(graph.parameters(), observes)) return;
  if (options.exchange.reproducible)
    refuse(
        "reproducible sums (--reproducible) with an optimizer that sums products of whole batches (K-FAC): leave this "
        "option out, or take another optimizer");
  using enum ProcessGrid::Axis;
  for (const auto& [axis, option] :
       {std::pair{space, "--spatial"}, {channel, "--channel-parallel"}, {stage, "--stages"}})
    if (options.grid && options.grid->extent(axis) > 1)
      refuse(
          "an optimizer that observes layers (K-FAC) needs whole layers of whole samples on each rank: leave {} out, "
          "or take another optimizer",
          option);
}

/// One compilation under way.
struct Compiler {
  Compiler(const Graph& graph, Parameters& parameters, const PlanOptions& options);
  CompiledGraph finish(const Graph& graph);
  void cut_samples(const Graph& graph);

  Context& context() { return build.parameters.context(); }
  void require_room_for_inputs();
  BufferId owned(const std::string& name, const TensorDesc& desc) {
    return build.program.add(name, desc, Storage::owned);
  }
  void find_wanted_f32(const Graph& graph, const std::vector<int>& index);
  void find_whole_numbers(const Graph& graph);
  void add_inputs();
  void clear_loss_of_other_stages();
  std::vector<BackwardFn> plan_forward();
  void plan_outputs(const Graph& graph, const std::vector<int>& index);
  void plan_backward(const std::vector<BackwardFn>& backward);

  PlanOptions options;
  CompileState build;
  FusedNodes fused;    ///< of whole samples
  SpatialParts parts;  ///< of this rank; the same nodes if samples are not cut
  int loss_node = -1;
  std::vector<bool> is_root;  ///< per node: backward passes begin here
  std::map<std::string, BufferId> outputs;
  std::map<std::string, WholeNumbers> whole_numbers;  ///< of inputs
  std::optional<Gradients> gradients;
};

Compiler::Compiler(const Graph& graph, Parameters& parameters, const PlanOptions& o) : options(o), build(parameters) {
  if (options.batch < 1) refuse("a batch of {}: expected at least 1 sample", options.batch);
  if (options.training && graph.loss() < 0)
    refuse("the network has no loss, so it cannot be trained: end it with mse(), mae(), ...");
  build.training = options.training;
  build.batch = options.micro_batch_size();
  build.places_results = !(options.training && options.recompute);
  build.precision = options.precision;
  // The host sees a loss only after such a device has gone on.
  build.checks_gradients = options.precision == Precision::fp16 || context().device().is_asynchronous();
  build.grid = options.grid;
  build.lag = options.lag && options.optimizer;
  if (options.training && options.optimizer && options.optimizer->reads_ahead())
    build.ahead = options.optimizer->state_names().front();
  build.order = options.exchange.reproducible ? SumOrder::tree : SumOrder::any;
  build.accumulates = options.micro_batches() > 1 || build.ranks(Distribution::Axis::stage) > 1;
  if (options.training && options.optimizer && build.ranks(Distribution::batch) > 1)
    build.shards = options.exchange.shards;
  if (build.ranks(Distribution::Axis::channel) > 1) require_channels(options);
  if (build.ranks(Distribution::Axis::stage) > 1) require_stages(options);
  if (build.shards != OptimizerShards::none) require_shards(options);
  require_observable(graph, options);
  if (options.training) build.observer = options.optimizer;
  build.sparse_allowed = !build.lag && !options.exchange.reproducible && !build.accumulates &&
                         build.shards == OptimizerShards::none &&
                         (!options.optimizer || options.optimizer->moves_only_rows_with_gradient());
  if (options.training && options.exchange.reproducible)
    require_tree(graph, options, build.ranks(Distribution::Axis::data), build.ranks(Distribution::Axis::space));
  fused = fuse(graph, options);
  cut_samples(graph);
  loss_node = graph.loss() < 0 ? -1 : parts.index[graph.loss()];
  is_root.assign(build.nodes.size(), false);
  for (const int sent : parts.sent) is_root[sent] = true;
  if (loss_node >= 0) is_root[loss_node] = true;
  const std::size_t count = build.nodes.size();
  build.values.assign(count, no_buffer);
  build.diffs.assign(count, {});
  build.wants_gradient.assign(count, false);
  build.wants_f32.assign(count, false);
  build.half_activations = takes_half_activations(context(), compute_type(build.precision));
  find_wanted_f32(graph, parts.index);
  find_whole_numbers(graph);

  add_inputs();
  clear_loss_of_other_stages();
  const auto backward = plan_forward();
  plan_outputs(graph, parts.index);
  if (options.training) plan_backward(backward);
}

void Compiler::cut_samples(const Graph& graph) {
  parts = stage_parts(graph, fused, options);
  for (const auto& [name, part] : parts.parameters) build.parameters.set_part(name, part);
  build.nodes = parts.nodes;
  build.sharing = parts.sharing;
  build.channel_axis = parts.channel_axis;
  if (parts.alike) return;
  // Ranks whose parts differ may prefer different layouts, but their gradients are added up as they lie in memory.
  for (const ParameterSpec& spec : graph.parameters()) {
    Parameter& p = build.parameters.at(spec.name);
    if (!p.value) build.parameters.materialise(p, Layout::plain(p.held_shape()));
  }
}

/// Losses and callers read f32. A node that keeps the type of its sources then needs f32 sources.
void Compiler::find_wanted_f32(const Graph& graph, const std::vector<int>& index) {
  for (const auto& [name, node] : graph.outputs())
    if (index[node] >= 0) build.wants_f32[index[node]] = true;
  for (const int sent : parts.sent) build.wants_f32[build.nodes[sent].srcs[0]] = true;
  for (int i = static_cast<int>(build.nodes.size()) - 1; i >= 0; --i) {
    const Graph::Node& n = build.nodes[i];
    if (n.is_input()) continue;
    if (n.shape.dtype == DType::f64) build.wants_f32[n.srcs[0]] = true;
    if (build.wants_f32[i] && n.layer->keeps_type())
      for (int s : n.srcs) build.wants_f32[s] = true;
  }
}

void Compiler::require_room_for_inputs() {
  const auto memory = context().device().memory();
  if (memory.total == 0) return;  // not known
  const auto available = static_cast<double>(memory.available);
  for (const Graph::Node& n : build.nodes) {
    if (!n.is_input()) continue;
    double bytes = static_cast<double>(size_of(n.shape.dtype));
    for (const auto d : n.shape.at_batch(build.batch)) bytes *= static_cast<double>(d);
    if (bytes > available)
      throw OutOfMemory(
          fmt::format("out of memory: {} needs {:.1f} MiB for a batch of {}, but {:.1f} MiB are available on "
                      "{}; try a smaller batch or input, or more ranks",
                      n.name, bytes / (1 << 20), build.batch, available / (1 << 20), context().device().describe()));
  }
}

void Compiler::find_whole_numbers(const Graph& graph) {
  for (const Graph::Node& n : graph.nodes()) {
    if (n.is_input()) continue;
    const auto numbers = n.layer->whole_numbers(graph.source_shapes(n));
    if (!numbers) continue;
    const Graph::Node& source = graph.nodes()[static_cast<std::size_t>(n.srcs[static_cast<std::size_t>(numbers->src)])];
    if (source.is_input()) whole_numbers.emplace(source.name, *numbers);
  }
}

void Compiler::add_inputs() {
  require_room_for_inputs();  // sizes that no integer holds must not be computed
  build.step_params = owned("step parameters", TensorDesc::plain({sizeof(ops::StepParams)}, DType::u8));
  if (options.training && build.checks_gradients)
    build.loss_scale = owned("loss scale", TensorDesc::plain({sizeof(ops::LossScale)}, DType::u8));
  build.loss = owned("loss", TensorDesc::plain({1}, DType::f64));
  build.program.buffer(build.loss).keep = true;
  if (options.sample_losses) {
    build.sample_loss = owned("loss of samples", TensorDesc::plain({build.batch}));
    build.program.buffer(build.sample_loss).keep = true;
  }
  if (options.training)
    build.program.buffer(build.loss).distribution = build.ranks(Distribution::Axis::stage) > 1
                                                        ? Distribution::partial(Distribution::all_terms)
                                                        : Distribution::partial();
  const TensorDesc weights = TensorDesc::plain({build.batch});
  build.weight = build.inputs["weight"] = owned("weight", weights);
  // Another rank counts the samples that this rank computes: nobody writes these weights, so they stay zero.
  if (options.training && options.grid &&
      options.grid->number({Distribution::Axis::space, Distribution::Axis::channel}) > 0)
    build.weight = owned("weight of samples that another rank counts", weights);
  for (std::size_t i = 0; i < build.nodes.size(); ++i) {
    const Graph::Node& n = build.nodes[i];
    if (!n.is_input()) continue;
    const Shape shape = n.shape.at_batch(build.batch);
    // Images and volumes come from disk with channels last, and fast convolutions read this layout.
    const Layout layout = shape.rank() >= 4 ? Layout::channels_last(shape) : Layout::plain(shape);
    build.values[i] = build.inputs[n.name] = owned(n.name, {shape, n.shape.dtype, layout});
  }
}

/// The last stage alone makes a loss: the terms of the others are zero.
void Compiler::clear_loss_of_other_stages() {
  if (!options.training || loss_node >= 0) return;
  constexpr int nobody = -(1 << 30);
  NodeBuilder b(build, Phase::forward, 0);
  b.wait(b.start({.kind = CollectiveDesc::Kind::receive,
                  .axes = Distribution::Axis::stage,
                  .dst = build.loss,
                  .peer = nobody,
                  .zeros = true,
                  .label = "loss of a stage without it"}));
}

std::vector<BackwardFn> Compiler::plan_forward() {
  std::vector<BackwardFn> backward(build.nodes.size());
  for (int i = 0; i < static_cast<int>(build.nodes.size()); ++i) {
    const Graph::Node& n = build.nodes[i];
    if (n.is_input()) continue;
    std::vector<ValueShape> shapes;
    bool wants = false;
    for (int s : n.srcs) {
      shapes.push_back(build.nodes[s].shape);
      wants = wants || build.wants_gradient[s];
    }
    const auto specs = n.layer->parameters(shapes);
    const auto is_trained = [](const ParameterSpec& p) { return p.kind == ParameterKind::trained; };
    build.wants_gradient[i] = wants || std::any_of(specs.begin(), specs.end(), is_trained) ||
                              std::ranges::find(parts.gradients_wanted, i) != parts.gradients_wanted.end();
    ForwardBuilder p(build, Phase::forward, i);
    backward[i] = n.layer->plan(p);
  }
  return backward;
}

void Compiler::plan_outputs(const Graph& graph, const std::vector<int>& index) {
  for (const auto& [name, node] : graph.outputs()) {
    if (index[node] < 0) continue;
    NodeBuilder e(build, Phase::forward, index[node]);
    const BufferId value = build.values[index[node]];
    const BufferId plain = e.in_layout(value, Layout::plain(e.desc(value).shape));
    build.program.buffer(plain).keep = true;
    outputs[name] = plain;
  }
}

void Compiler::plan_backward(const std::vector<BackwardFn>& backward) {
  for (int i = static_cast<int>(build.nodes.size()) - 1; i >= 0; --i) {
    if (!build.wants_gradient[i] || !backward[i] || (!is_root[i] && build.diffs[i].empty())) continue;
    BackwardBuilder b(build, i);
    backward[i](b);
  }
  for (const int received : parts.gradients_wanted)
    if (build.diffs[received].empty())
      fail("{}: the stage before waits for a gradient that no layer of this stage makes", build.nodes[received].name);
  gradients.emplace(build, options.exchange);
  for (Call& end : build.behind_backward) {
    end.phase = Phase::exchange;
    build.program.calls().push_back(std::move(end));
  }
}

CompiledGraph Compiler::finish(const Graph& graph) {
  Program& program = build.program;
  if (options.inputs_as_read) adopt_readers_descs(build);
  CompiledGraph c{options, context(), context().device().current_instance().concurrency()};
  if (options.training && options.optimizer) {
    append_updates(build, graph, *options.optimizer, *gradients, options.exchange.wire);
    for (const auto& [node, append] : build.at_update) {
      NodeBuilder b(build, Phase::update, node);
      append(b);
    }
  }
  if (options.training && options.recompute) recompute_cheap_values(program);
  if (options.training && !parts.inputs.empty()) overlap_messages(program);
  c.phase_ends = gradients ? insert_collectives(build, gradients->buckets(), gradients->gathers())
                           : insert_collectives(build, {}, {});
  if (context().device().merges_launches()) gather_independent_calls(program, c.phase_ends.exchange);
  if (options.training && options.noise_scale) c.noise = insert_noise_sums(build, *gradients, c.phase_ends);
  if (options.training && context().device().can_overlap() && overlap_mode() != OverlapMode::off)
    overlap_weight_gradients(program);
  program.place();
  c.structure = plan_structure(build, fused.nodes, parts.bounds);
  c.checks_gradients = build.checks_gradients;
  c.step_params = build.step_params;
  c.loss_scale = build.loss_scale;
  c.weight = build.inputs.at("weight");
  c.loss = build.loss;
  c.sample_loss = build.sample_loss;
  c.inputs = build.inputs;
  c.outputs = outputs;
  c.whole_numbers = whole_numbers;
  for (const auto& [node, next] : build.next_states)
    c.states.push_back({build.nodes[node].name, build.values[node], next});
  if (options.training && options.optimizer)
    for (const Parameter& p : build.parameters.all()) c.own_shapes[p.name] = p.own_shapes;
  c.gradients = build.gradients;
  c.sparse_gradients = build.sparse_gradients;
  if (gradients) {
    c.gradient_floats = gradients->floats();
    c.buckets = gradients->buckets().size();
    if (gradients->shards()) c.parameter_block = gradients->shards()->block();
  }
  c.program = std::move(program);
  return c;
}

}  // namespace

namespace {

/// Training adds up what the ranks' plans have made, element by element in memory. If the plans have other kernels,
/// the elements may lie in another order, and the sums would be wrong without a word. `ranks`: all that take part in
/// sums. `peers`: those with the same parts of samples, which are computed alike. Both may be null.
void require_same_plans(const CompiledGraph& mine, Communicator* ranks, Communicator* peers) {
  const auto compare = [](Communicator* group, std::uint64_t hash) {
    if (group)
      compare_hash(*group, hash, "plans",
                   "give all ranks the same network, shapes of inputs, options, build and environment, on processors "
                   "of one kind, or try KEELSON_BACKEND=kokkos and KEELSON_TUNE=off");
  };
  compare(ranks, mine.structure);
  compare(peers, plan_hash(mine));
}

/// Makes a plan as the first of these ranks does: what the others have and what their environments say makes no
/// difference.
CompiledGraph make_as_first(const std::function<CompiledGraph()>& make, Communicator& peers, Autotuner* autotuner) {
  // The first rank decides whether anything is measured.
  const bool measures = autotuner && autotuner->measures();
  std::optional<CompiledGraph> compiled;
  on_first_rank(&peers, [&] {
    if (measures) compiled.emplace(make());
  });
  const std::string choices =
      tuning_ranks(&peers).from_first(measures ? autotuner->text() : "");  // empty: rules of thumb
  const Autotuner::RulesOfThumb as_the_first_rank(choices.empty() ? autotuner : nullptr);
  if (autotuner && !choices.empty() && peers.rank() != 0) autotuner->adopt(choices);
  if (!compiled) compiled.emplace(make());
  return std::move(*compiled);
}

/// The same, but by rules of thumb if a rank lacks what the first one has chosen: a library may have other algorithms
/// for another number of threads.
CompiledGraph make_as_peers(const std::function<CompiledGraph()>& make, Parameters& parameters, Communicator& peers,
                            Autotuner* autotuner) {
  std::vector<Parameter*> without_memory;
  for (Parameter& p : parameters.all())
    if (!p.value) without_memory.push_back(&p);
  if (CompiledGraph compiled = make_as_first(make, peers, autotuner);
      !autotuner || all_have(peers, plan_hash(compiled)))
    return compiled;
  for (Parameter* p : without_memory) p->value = {};  // the first plan has chosen their layouts
  const Autotuner::RulesOfThumb instead(autotuner);
  return make();
}

CompiledGraph compile_alike(const Graph& graph, Parameters& parameters, const PlanOptions& options,
                            Autotuner* autotuner) {
  // What is measured may depend on the number of samples per rank, which reproducible results must not.
  const Autotuner::RulesOfThumb rules(options.exchange.reproducible ? autotuner : nullptr);
  const SpatialParts parts = stage_parts(graph, fuse(graph, options), options);
  Communicator* const same_parts = options.same_parts();
  Communicator* const peers = parts.alike ? options.compiles_with() : same_parts;
  const auto make = [&] { return Compiler(graph, parameters, options).finish(graph); };
  CompiledGraph compiled = peers && peers->size() > 1 ? make_as_peers(make, parameters, *peers, autotuner) : make();
  const bool has_parts = !parts.inputs.empty() || !parts.parameters.empty();
  if (options.training) require_same_plans(compiled, options.communicator(), has_parts ? same_parts : peers);
  return compiled;
}

}  // namespace

CompiledGraph compile(const Graph& graph, Parameters& parameters, const PlanOptions& options) {
  constexpr double worth_telling = 1;  // seconds
  require_micro_batches(graph, options);
  require_noise_scale(options);
  Context& context = parameters.context();
  Autotuner* const autotuner = context.device().autotuner();
  const Autotuner::KeepsMemory from_trial_to_trial(autotuner);
  const double before = autotuner ? autotuner->seconds() : 0;
  auto compiled = compile_alike(graph, parameters, options, autotuner);
  if (autotuner && autotuner->seconds() - before > worth_telling)
    context.remark(fmt::format(
        "algorithms were timed for {:.1f} s; {} (KEELSON_TUNE=off takes rules of thumb)", autotuner->seconds() - before,
        autotuner->file().empty() ? "set KEELSON_CACHE to a folder that keeps the choices for later starts"
                                  : "later starts find the choices in " + autotuner->file().string()));
  return compiled;
}

}  // namespace keelson
