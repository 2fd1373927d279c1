#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/base/ranks.hpp"
#include "engine/grow/deepen.hpp"
#include "engine/train/checkpoint/detail/checkpoint_layout.hpp"
#include "engine/train/trainer.hpp"

/// What makes the trainer's parts anew: ranks that are lost, another network, another mode of exchange, a checkpoint.
namespace keelson {
namespace {

std::string to_string(const ParameterMap& map) {
  std::string text = map.from.empty() ? "" : "from " + map.from + " ";
  for (const IndexMap& indices : map.indices)
    text += indices ? fmt::format("[{}]", fmt::join(*indices, " ")) : std::string("[all]");
  return text;
}

/// What must be alike on all ranks for the same network to come of it.
std::map<std::string, std::string> describe(const NetworkChange& change) {
  auto values = Topology(change.graph).lines();
  values["the kind of change"] =
      fmt::format("{}{}", static_cast<int>(change.kind), change.may_be_undone ? " for now" : "");
  for (const auto& [name, numbers] : change.observed)
    values["the entry " + name] = fmt::format("{}", fmt::join(numbers, " "));
  for (const auto& [name, map] : change.maps) values["the map of " + name] = to_string(map);
  for (const auto& [name, array] : change.values)
    values["the values of " + name] = fmt::format("{:016x}", Digest().add(array).value());
  for (const auto& [name, array] : change.gradient_factors)
    values["the gradient factors of " + name] = fmt::format("{:016x}", Digest().add(array).value());
  return values;
}

/// Calls f(name in RunState::NetworkBefore, parameter, number of the moment or -1) for all arrays that the network has.
template <class P, class F>
void each_array(P& parameters, const std::vector<std::string>& moments, F f) {
  for (auto& p : parameters.all()) {
    f(detail::parameter_path(p.name).substr(1), p, -1);
    if (p.kind == ParameterKind::trained)
      for (std::size_t m = 0; m < moments.size(); ++m)
        if (p.has(static_cast<int>(m))) f(detail::moment_path(moments[m], p.name).substr(1), p, static_cast<int>(m));
  }
}

/// The recurrent states of the network, of all ranks together.
std::map<std::string, Shape> states_of(const Graph& graph, std::int64_t global_batch) {
  std::map<std::string, Shape> states;
  for (const auto& node : graph.nodes()) {
    if (!node.is_state) continue;
    Shape shape = node.shape.shape;
    shape[0] = global_batch;
    states[node.name] = shape;
  }
  return states;
}

/// Gives parameters and moments (`moments` of each parameter) of rank `root` to all ranks.
void broadcast_parameters(Parameters& parameters, std::size_t moments, Communicator& ranks, int root) {
  for (auto& p : parameters.all()) {
    const int arrays = p.kind == ParameterKind::trained ? static_cast<int>(moments) : 0;
    for (int which = -1; which < arrays; ++which) {
      std::vector<float> plain(static_cast<std::size_t>(p.shape_of(which).elements()));
      if (ranks.rank() == root) plain = parameters.get(p, which);
      ranks.broadcast(plain.data(), plain.size() * sizeof(float), root);
      if (ranks.rank() != root) parameters.set(p, plain, which);
    }
  }
}

}  // namespace

bool Trainer::survives() const { return recovery_.survives() && (options_.restart_on_loss || !session_.has_states()); }

void Trainer::retry_until_agreed(const RankRecovery::Work& work) {
  std::optional<Recovery> recovery;
  if (survives())
    recovery = recovery_.retry_until_agreed(work, state_, {[this] { release_group(); }, [this] { rebuild_group(); }});
  else
    work.run();
  observers_.notify([](auto& o) { o.on_agreement(); });
  if (recovery) observers_.notify([&](auto& o) { o.on_ranks_lost(state_, *recovery); });
}

void Trainer::release_group() {
  vote_.drop();
  if (!session_.is_released()) {
    parameters_.context().device().fence();
    finish_pending(0);
  }
  session_.release_group();
  batches_.release_group();
  if (evaluator_) evaluator_->release_group();
  ranks_.release();
}

void Trainer::rebuild_group() {
  ranks_.regroup();
  session_.regroup();
  batches_.regroup(session_.rows());
  join_ranks();
  if (evaluator_ && !ranks_.waits())
    evaluator_->regroup(session_.graph(), parameters_, ranks_.training(), batches_.cache_left());
  if (ranks_.per_replica() > 1) bring_up_to_date();
  if (!is_rank0()) return;
  for (TrainObserver* o : observers_.make_rank0_observers())
    o->on_take_over(state_, last_epoch_ ? &*last_epoch_ : nullptr);
}

void Trainer::bring_up_to_date() {
  const auto known = communicator_->allgather(up_to_date_ ? "yes" : "no");
  if (std::ranges::find(known, "no") == known.end()) return;
  // Fewer ranks wait than a replica has. So where a replica is left, a rank that trained is left, too.
  const auto first = std::ranges::find(known, "yes");
  KEELSON_EXPECT(first != known.end());
  const auto root = static_cast<int>(first - known.begin());
  broadcast_parameters(parameters_, options_.moments().size(), *communicator_, root);
  auto scale = up_to_date_ ? session_.loss_scale() : ops::LossScale();
  communicator_->broadcast(&scale, sizeof scale, root);
  if (!up_to_date_) session_.set_loss_scale(scale);
  up_to_date_ = true;
}

/// The first rank always trains.
void Trainer::share(PendingStep& step) {
  struct {
    double loss;
    double weight;
    ops::LossScale scale;
    StopVote::Reason decision;
  } known{step.loss, step.weight, session_.loss_scale(), decision_};
  communicator_->broadcast(&known, sizeof known, 0);
  if (!ranks_.waits()) return;
  step.loss = known.loss;
  step.weight = known.weight;
  session_.set_loss_scale(known.scale);
  decision_ = known.decision;
}

void Trainer::share(Evaluation& validation) {
  std::vector<double> known{validation.loss, validation.metric, validation.seconds};
  known.insert(known.end(), validation.metric_values.begin(), validation.metric_values.end());
  std::uint64_t count = known.size();
  communicator_->broadcast(&count, sizeof count, 0);
  known.resize(count);
  communicator_->broadcast(known.data(), count * sizeof(double), 0);
  if (!ranks_.waits()) return;
  validation = {.samples = evaluator_->samples(), .loss = known[0], .metric = known[1], .seconds = known[2]};
  validation.metric_values.assign(known.begin() + 3, known.end());
}

void Trainer::join_ranks() {
  pending_.regroup(session_.ranks_apart(), session_.slack());
  vote_.wait();
  vote_.regroup(ranks_.training(), session_.slack());
}

void Trainer::adopt_sync_mode(std::int64_t epochs) {
  const bool apart = session_.works_apart(epochs);
  if (apart == (session_.ranks_apart() != nullptr)) return;
  synchronize();
  session_.set_apart(apart);
  join_ranks();
}

void Trainer::ask_for_change() {
  if (!options_.change_network || state_.epoch == 0 || state_.step_in_epoch > 0) return;
  synchronize();
  const Stopwatch watch;
  const auto compare = [this](const std::map<std::string, std::string>& values) {
    if (communicator_)
      compare_values(*communicator_, values, "networks to go on with",
                     "let change_network depend on the run state and the parameters alone");
  };
  for (bool again = true; again;) {
    std::optional<NetworkChange> change;
    retry_until_agreed({"the choice of the network", [&] {
                          on_each_rank(communicator_, [&] { change = options_.change_network(state_, parameters_); });
                          compare({{"the network", change ? "another one" : "as it was"}});
                          if (change) compare(describe(*change));
                        }});
    again = change && change->kind == NetworkChange::Kind::undo;
    if (change) apply(std::move(*change));
  }
  clock_.add_change(watch.seconds());
}

void Trainer::note_step_time() {
  double milliseconds = 1e3 * clock_.median_step();
  retry_until_agreed({"the time of a step", [&] {
                        if (communicator_) communicator_->broadcast(&milliseconds, sizeof milliseconds, 0);
                      }});
  state_.observed[step_ms_entry] = {milliseconds};
}

void Trainer::apply(NetworkChange change) {
  for (auto& [name, values] : change.observed) state_.observed[name] = std::move(values);
  auto& changes = state_.observed[network_changes_entry];
  if (change.kind == NetworkChange::Kind::replace) {
    if (communicator_) parameters_.gather_shards(*communicator_);
    state_.before.reset();
    if (change.may_be_undone) remember_network();
    auto parameters = changed_parameters(parameters_, change, options_.moments());
    set_network(std::move(change.graph), std::move(parameters));
    changes.push_back(static_cast<double>(state_.epoch));
  } else if (change.kind == NetworkChange::Kind::undo) {
    restore_network();
    if (!changes.empty()) changes.pop_back();
  }
  if (change.kind == NetworkChange::Kind::keep) state_.before.reset();
  if (changes.empty()) state_.observed.erase(network_changes_entry);
  if (change.kind != NetworkChange::Kind::keep)
    observers_.notify([&](auto& o) { o.on_network_change(state_, session_.graph(), change.text); });
}

void Trainer::remember_network() {
  auto before = std::make_shared<RunState::NetworkBefore>();
  before->topology = state_.topology;
  each_array(parameters_, options_.moments(), [&](const std::string& name, const Parameter& p, int which) {
    before->arrays[name] = {p.shape_of(which), parameters_.get(p, which)};
  });
  state_.before = std::move(before);
}

void Trainer::restore_network() {
  if (!state_.before)
    fail("change_network has undone a change, but none may be undone: see NetworkChange::may_be_undone");
  const auto before = std::exchange(state_.before, nullptr);
  const Topology wanted = Topology::parse(before->topology);
  Graph graph = options_.make_network ? options_.make_network(wanted) : with_topology(session_.graph(), wanted);
  const auto refuse_other = [](const std::string& what) {
    refuse("the network before the last change cannot be made again: {}. Resume from an earlier checkpoint", what);
  };
  if (const auto differs = difference(Topology(graph), wanted); !differs.empty()) refuse_other(differs);
  Parameters parameters(graph, parameters_.context(), parameters_.seed());
  set_own_shapes(parameters, *options_.optimizer);
  each_array(parameters, options_.moments(), [&](const std::string& name, Parameter& p, int which) {
    const auto found = before->arrays.find(name);
    if (found == before->arrays.end()) refuse_other(name + " is missing");
    if (const Shape& shape = p.shape_of(which); !(found->second.shape == shape))
      refuse_other(fmt::format("{} is {}, expected {}", name, to_string(found->second.shape), to_string(shape)));
    parameters.set(p, found->second.values, which);
  });
  set_network(std::move(graph), std::move(parameters));
}

std::optional<Graph> Trainer::network_of(const CheckpointReader& checkpoint) const {
  const std::string& text = checkpoint.state().topology;
  const bool may_change = options_.make_network || options_.change_network;
  if (!may_change || text.empty() || text == state_.topology) return std::nullopt;
  const Topology wanted = Topology::parse(text);
  std::optional<Graph> graph;
  on_each_rank(communicator_, [&] {
    graph.emplace(options_.make_network ? options_.make_network(wanted) : with_topology(session_.graph(), wanted));
  });
  if (const auto differs = difference(Topology(*graph), wanted); !differs.empty())
    refuse(
        "{}: the network that {} made for this checkpoint is another one: {}. Make it of the widths of the "
        "topology, and give the options of the run",
        checkpoint.path().string(), options_.make_network ? "make_network" : "with_topology", differs);
  return graph;
}

void Trainer::replace_network(Graph graph, Parameters parameters) {
  if (evaluator_) evaluator_->release_network();
  session_.replace_network(std::move(graph), std::move(parameters));
  state_.topology = Topology(session_.graph()).to_text();
}

void Trainer::set_network(Graph graph, Parameters parameters) {
  replace_network(std::move(graph), std::move(parameters));
  bool first = true;  // after a loss, the parts are made with the group of ranks
  retry_until_agreed({"a change of the network", [&] {
                        if (std::exchange(first, false)) make_parts();
                      }});
}

void Trainer::make_parts() {
  session_.make();
  if (session_.rows() != batches_.rows()) batches_.regroup(session_.rows());
  join_ranks();
  if (evaluator_ && !ranks_.waits()) evaluator_->set_network(session_.graph(), parameters_);
}

void Trainer::resume(const CheckpointReader& reader) {
  synchronize();
  // Everything is checked before anything changes.
  require_resumable(reader, state_, pruning_.enabled());
  auto graph = network_of(reader);
  std::optional<Parameters> parameters;
  if (graph) set_own_shapes(parameters.emplace(*graph, parameters_.context(), parameters_.seed()), *options_.optimizer);
  const bool within = reader.state().step_in_epoch > 0;
  reader.check(
      options_.network, parameters ? *parameters : parameters_, options_.moments(),
      within ? states_of(graph ? *graph : session_.graph(), state_.global_batch) : std::map<std::string, Shape>());
  if (graph) {
    replace_network(std::move(*graph), std::move(*parameters));
    make_parts();
  }
  adopt_sync_mode(reader.state().epoch);
  auto loaded = reader.load_checked(parameters_, options_.moments());
  session_.restore(loaded);
  loaded.carried.clear();
  restore_samples(loaded, reader.path().string());
  loaded.config = state_.config;
  loaded.texts = state_.texts;
  loaded.topology = state_.topology;
  loaded.global_batch = state_.global_batch;
  loaded.train_samples = state_.train_samples;
  loaded.world_size = state_.world_size;
  loaded.optimizer = state_.optimizer;
  loaded.schedule = state_.schedule;
  state_ = loaded;
  session_.make_synchronizer();  // of the parameters that are there now
  join_ranks();
  begun_ = false;
  asked_to_stop_ = false;
  stop_.reset();
  last_epoch_.reset();
  checkpoints_.resume(reader.path(), state_);
}

}  // namespace keelson
