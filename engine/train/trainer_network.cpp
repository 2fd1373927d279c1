#include <map>
#include <optional>
#include <string>
#include <utility>

#include <fmt/ranges.h>

#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
#include "engine/train/trainer.hpp"

/// The trainer's plan, and networks that change while they train.
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
  for (const auto& [name, map] : change.maps) values["the map of " + name] = to_string(map);
  return values;
}

}  // namespace

std::unique_ptr<Executor> Trainer::make_executor(const Graph& graph) const {
  PlanOptions p;
  p.batch = options_.batch;
  p.precision = options_.precision;
  p.optimizer = options_.optimizer.get();
  p.exchange = options_.exchange;
  p.inputs_as_read = converts_batches(parameters_.context().device());
  p.grid = grid_ && !local_ ? &*grid_ : nullptr;
  p.peers = communicator_;
  p.recompute = options_.recompute;
  p.lag = options_.sync.kind == SyncMode::Kind::lag;
  auto executor = std::make_unique<Executor>(graph, parameters_, p);
  if (local_) executor->set_progress(communicator_);
  return executor;
}

void Trainer::ask_for_change() {
  if (!options_.change_network || state_.epoch == 0 || state_.step_in_epoch > 0) return;
  settle();
  std::optional<NetworkChange> change;
  const auto compare = [this](const std::map<std::string, std::string>& values) {
    if (communicator_)
      compare_values(*communicator_, values, "networks to go on with",
                     "let change_network depend on the run state and the parameters alone");
  };
  together("the choice of the network", [&] {
    on_each_rank(communicator_, [&] { change = options_.change_network(state_, parameters_); });
    compare({{"the network", change ? "another one" : "as it was"}});
    if (change) compare(describe(*change));
  });
  if (!change) return;
  auto parameters = parameters_.remap(change->graph, change->maps);
  set_network(std::move(change->graph), std::move(parameters));
  tell([&](auto& o) { o.on_network_change(state_, *graph_); });
}

std::optional<Graph> Trainer::network_of(const CheckpointReader& checkpoint) const {
  const std::string& text = checkpoint.state().topology;
  if (!options_.make_network || text.empty() || text == state_.topology) return std::nullopt;
  const Topology wanted = Topology::parse(text);
  std::optional<Graph> graph;
  on_each_rank(communicator_, [&] { graph.emplace(options_.make_network(wanted)); });
  if (const auto differs = difference(Topology(*graph), wanted); !differs.empty())
    refuse(
        "{}: the network that make_network made for this checkpoint is another one: {}. Make it of the widths of the "
        "topology, and give the options of the run",
        checkpoint.path().string(), differs);
  return graph;
}

void Trainer::set_network(Graph graph, Parameters parameters) {
  const auto scale = executor_->loss_scale();
  parameters_.context().device().fence();
  // What refers to the old parameters goes before their memory does, and both before the new plan needs room.
  synchronizer_.reset();
  feed_.reset();
  executor_.reset();
  if (evaluator_) evaluator_->release_network();
  parameters_ = std::move(parameters);
  own_graph_ = std::make_unique<Graph>(std::move(graph));
  graph_ = own_graph_.get();
  executor_ = make_executor(*graph_);
  executor_->set_loss_scale({.scale = scale.scale, .good_steps = scale.good_steps, .skipped = scale.skipped});
  feed_.emplace(training_.fields(), loader_->coded(), *executor_, parameters_.context());
  make_synchronizer();
  if (evaluator_) evaluator_->set_network(*graph_, parameters_);
  state_.topology = Topology(*graph_).to_text();
  run_steps_ = 0;  // the new plan's calls are timed, too
}

}  // namespace keelson
