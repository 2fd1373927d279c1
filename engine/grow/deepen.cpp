#include "engine/grow/deepen.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/layers/eltwise.hpp"
#include "engine/layers/layers.hpp"
#include "engine/prune/unit_groups.hpp"

namespace keelson {

namespace {

/// A node of a copy: "conv3+2.act".
struct CopyName {
  std::string layer;    ///< "conv3"
  std::int64_t number;  ///< 2
};

/// No value: the name is of no copy.
std::optional<CopyName> parse_copy(const std::string& name) {
  const auto plus = name.rfind('+');
  if (plus == std::string::npos || plus == 0) return std::nullopt;
  const std::string rest = name.substr(plus + 1);
  const auto dot = rest.find('.');
  const auto number = parse_number<std::int64_t>(rest.substr(0, dot));
  if (!number || *number < 1) return std::nullopt;
  const std::string part = dot == std::string::npos ? "" : rest.substr(dot);
  if (!part.empty() && part != ".in" && part != ".norm" && part != ".act" && part != ".out") return std::nullopt;
  return CopyName{name.substr(0, plus), *number};
}

std::string copy_name(const std::string& layer, std::int64_t number) { return fmt::format("{}+{}", layer, number); }

/// Where copies of a layer come, and what they are made of.
struct CopyPlan {
  RepeatableLayer layer;
  int behind = -1;             ///< the node whose value the first copy reads
  RepeatedLayer weights = {};  ///< for that value
  std::shared_ptr<const Layer> activation = {};
  std::shared_ptr<const Layer> norm = {};  ///< null: none
};

/// A graph without copies, and what can be copied.
class CopyFinder {
 public:
  explicit CopyFinder(const Graph& graph) : graph_(graph), readers_(graph.nodes().size()) {
    for (int n = 0; n < std::ssize(graph.nodes()); ++n)
      for (const int s : node(n).srcs) readers_[static_cast<std::size_t>(s)].push_back(n);
    for (const UnitGroup& group : unit_groups(graph))
      for (const UnitPlace& p : group.places)
        if (group.fixed && p.node >= 0) fixed_.insert(p.node);
  }

  std::optional<CopyPlan> plan_of(int at) const {
    const Graph::Node& n = node(at);
    if (n.is_input() || !n.shared.empty() || fixed_.contains(at)) return std::nullopt;
    CopyPlan plan{.layer = {n.name}, .behind = at};
    bool has_activation = follow(at, plan);
    if (!has_activation) has_activation = look_in_front(at, plan);
    if (!has_activation || is_end(plan.behind)) return std::nullopt;
    const auto repeated = n.layer->repeated(node(plan.behind).shape);
    if (!repeated) return std::nullopt;
    plan.weights = *repeated;
    const auto* eltwise = dynamic_cast<const EltwiseLayer*>(plan.activation.get());
    const bool same_twice = eltwise->params().kind == ops::EltwiseKind::relu && plan.behind != at;
    if (same_twice && !plan.norm && repeated->identity) plan.layer.form = CopyForm::identity;
    return plan;
  }

 private:
  const Graph::Node& node(int n) const { return graph_.nodes()[static_cast<std::size_t>(n)]; }

  bool is_activation(int n) const {
    const auto* eltwise = dynamic_cast<const EltwiseLayer*>(node(n).layer.get());
    return eltwise && ops::is_activation(eltwise->params().kind);
  }
  /// Whether the value is an output, or what a loss reads.
  bool is_end(int value) const {
    return std::ranges::any_of(graph_.outputs(), [&](const auto& o) { return o.second == value; }) ||
           std::ranges::any_of(readers_[static_cast<std::size_t>(value)], [&](int r) { return r == graph_.loss(); });
  }

  /// Goes on behind the layer, through normalizations and sums, to the activation.
  bool follow(int at, CopyPlan& plan) const {
    std::shared_ptr<const Layer> norm;
    for (int value = at; !is_end(value) && readers_[static_cast<std::size_t>(value)].size() == 1;) {
      value = readers_[static_cast<std::size_t>(value)][0];
      const std::string kind = node(value).layer->kind();
      if (is_activation(value)) {
        plan.behind = value;
        plan.activation = node(value).layer;
        plan.norm = norm;
        return true;
      }
      if (kind == "batch_norm")
        norm = node(value).layer;
      else if (kind != "add")
        return false;
    }
    return false;
  }

  /// Goes back from the layer, through dropout, to the activation and a normalization.
  bool look_in_front(int at, CopyPlan& plan) const {
    int value = node(at).srcs[0];
    while (!node(value).is_input() && node(value).layer->kind() == "dropout") value = node(value).srcs[0];
    if (node(value).is_input() || !is_activation(value)) return false;
    plan.activation = node(value).layer;
    const int before = node(value).srcs[0];
    if (!node(before).is_input() && node(before).layer->kind() == "batch_norm") plan.norm = node(before).layer;
    return true;
  }

  const Graph& graph_;
  std::vector<std::vector<int>> readers_;
  std::set<int> fixed_;  ///< nodes whose channels outputs or other layers depend on
};

std::vector<CopyPlan> plans_of(const Graph& base) {
  const CopyFinder finder(base);
  std::vector<CopyPlan> all;
  for (int n = 0; n < std::ssize(base.nodes()); ++n)
    if (auto plan = finder.plan_of(n)) all.push_back(std::move(*plan));
  return all;
}

Var append_copy(Var x, const CopyPlan& plan, std::int64_t number) {
  Graph& g = *x.graph;
  const std::string name = copy_name(plan.layer.name, number);
  if (plan.layer.form == CopyForm::identity)
    return g.add(plan.activation, {g.add(plan.weights.layer, {x}, name)}, name + ".act");
  Var f = g.add(plan.weights.layer, {x}, name + ".in");
  if (plan.norm) f = g.add(plan.norm, {f}, name + ".norm");
  f = g.add(plan.weights.layer, {g.add(plan.activation, {f}, name + ".act")}, name + ".out");
  return add({x, f}, name);
}

/// The nodes of `graph` but those of copies, and behind them what `behind` appends: called with each node's number
/// among the nodes that stay and its value; the readers of the node read what it returns.
template <class F>
Graph rebuild_without_copies(const Graph& graph, F behind) {
  Graph g;
  std::vector<Var> values;  // what readers of each node read
  int number = 0;
  for (const Graph::Node& n : graph.nodes()) {
    std::vector<Var> srcs;
    for (const int s : n.srcs) srcs.push_back(values[static_cast<std::size_t>(s)]);
    if (!srcs.empty() && parse_copy(n.name)) {
      values.push_back(srcs[0]);
      continue;
    }
    Var v;
    const Shape sample(std::span(n.shape.shape.begin() + (n.shape.shape.rank() > 0 ? 1 : 0), n.shape.shape.end()));
    if (n.is_state)
      v = g.state(n.name, sample);
    else if (n.is_input())
      v = g.input(n.name, sample, n.shape.dtype);
    else
      v = g.add(n.layer, srcs, n.name, n.shared);
    values.push_back(behind(number++, v));
  }
  for (Var& v : values) v.graph = &g;
  for (const auto& [name, node] : graph.outputs()) g.set_output(name, values[static_cast<std::size_t>(node)]);
  if (graph.loss() >= 0) g.set_loss(values[static_cast<std::size_t>(graph.loss())]);
  return g;
}

Graph without_copies(const Graph& graph) {
  return rebuild_without_copies(graph, [](int, Var v) { return v; });
}

}  // namespace

std::vector<RepeatableLayer> repeatable_layers(const Graph& graph) {
  std::vector<RepeatableLayer> all;
  for (CopyPlan& plan : plans_of(without_copies(graph))) all.push_back(std::move(plan.layer));
  return all;
}

LayerCopies copies_of(const Topology& topology) {
  LayerCopies copies;
  for (const Topology::Node& n : topology.nodes)
    if (const auto copy = parse_copy(n.name); copy && !n.srcs.empty())
      copies[copy->layer] = std::max(copies[copy->layer], copy->number);
  return copies;
}

std::string copied_layer(const std::string& name) {
  const auto copy = parse_copy(name);
  return copy ? copy->layer : name;
}

Graph with_copies(const Graph& graph, const LayerCopies& copies) {
  const Graph base = without_copies(graph);
  const auto plans = plans_of(base);
  constexpr std::int64_t most = Graph::most_nodes;
  for (const auto& [name, count] : copies) {
    if (std::ranges::none_of(plans, [&](const CopyPlan& p) { return p.layer.name == name; })) {
      std::vector<std::string> names;
      for (const CopyPlan& p : plans) names.push_back(p.layer.name);
      refuse("no copies can follow the layer '{}': expected a convolution or a dense layer with an activation: {}",
             name, names.empty() ? "this network has none" : fmt::format("{}", fmt::join(names, ", ")));
    }
    if (count < 0 || count > most) refuse("{} copies of the layer '{}': expected 0 to {}", count, name, most);
  }
  return rebuild_without_copies(base, [&](int number, Var v) {
    for (const CopyPlan& plan : plans) {
      const auto found = copies.find(plan.layer.name);
      if (plan.behind != number || found == copies.end()) continue;
      for (std::int64_t k = 1; k <= found->second; ++k) v = append_copy(v, plan, k);
    }
    return v;
  });
}

Graph with_topology(const Graph& graph, const Topology& topology) {
  const LayerCopies copies = copies_of(topology);
  return copies == copies_of(Topology(graph)) ? with_widths(graph, topology)
                                              : with_widths(with_copies(graph, copies), topology);
}

NetworkChange deepen(const Graph& graph, const std::vector<std::string>& layers) {
  const Topology topology(graph);
  LayerCopies copies = copies_of(topology);
  for (const std::string& name : layers) ++copies[name];
  // The copies that there were have their widths, and the new ones those of the layer.
  NetworkChange change{with_widths(with_copies(graph, copies), topology), {}};
  const auto plans = plans_of(without_copies(change.graph));
  for (const std::string& name : layers) {
    const auto plan = std::ranges::find_if(plans, [&](const CopyPlan& p) { return p.layer.name == name; });
    const std::string node = copy_name(name, copies.at(name)) + (plan->layer.form == CopyForm::identity ? "" : ".out");
    for (const ParameterSpec& p : change.graph.parameters()) {
      if (p.name != node + "/weights" && p.name != node + "/bias") continue;
      const bool identity = plan->layer.form == CopyForm::identity && p.name.ends_with("/weights");
      change.values[p.name] =
          identity ? plan->weights.identity() : std::vector<float>(static_cast<std::size_t>(p.shape.elements()));
    }
  }
  return change;
}

std::string gaining_weights(const Graph& graph, const std::string& layer) {
  const LayerCopies copies = copies_of(Topology(graph));
  const auto found = copies.find(layer);
  KEELSON_EXPECT(found != copies.end());
  const std::string last = copy_name(layer, found->second);
  for (const std::string& name : {last + "/weights", last + ".out/weights"})
    for (const ParameterSpec& p : graph.parameters())
      if (p.name == name) return name;
  fail("the copy {} has no weights", last);
}

}  // namespace keelson
