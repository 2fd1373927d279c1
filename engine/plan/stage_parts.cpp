#include "engine/plan/stage_parts.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/plan/channel_parts.hpp"
#include "engine/plan/stage_transfer.hpp"

namespace keelson {
namespace {

using Axis = ProcessGrid::Axis;

std::vector<ValueShape> source_shapes(const std::vector<Graph::Node>& nodes, const Graph::Node& n) {
  std::vector<ValueShape> shapes;
  for (const int s : n.srcs) shapes.push_back(nodes[static_cast<std::size_t>(s)].shape);
  return shapes;
}

/// Cuts nodes into stages, for one rank.
class StageCutter {
 public:
  StageCutter(const Graph& graph, const FusedNodes& fused, const PlanOptions& options)
      : graph_(graph),
        nodes_(fused.nodes),
        index_(fused.index),
        training_(options.training),
        count_(options.grid->extent(Axis::stage)),
        mine_(options.grid->coordinate(Axis::stage)) {
    auto starts = options.stage_starts;
    if (starts.empty()) starts = estimated_stage_starts(graph, count_);
    find_stages(starts);
    find_last_readers();
    find_gradients();
    require_own_parameters();
  }

  SpatialParts finish();

 private:
  void find_stages(const std::vector<std::string>& starts);
  void find_last_readers();
  void find_gradients();
  void require_own_parameters() const;
  int stage(int node) const { return stages_[static_cast<std::size_t>(node)]; }
  bool goes_to(int node, int other) const {
    return !nodes_[static_cast<std::size_t>(node)].is_input() && stage(node) < other &&
           last_readers_[static_cast<std::size_t>(node)] >= other;
  }
  StageTransfer transfer(int node, int from) const {
    const auto i = static_cast<std::size_t>(node);
    return {nodes_[i].name, nodes_[i].shape, from, from + 1, training_ && wants_gradient_[i]};
  }
  int add(SpatialParts& parts, Graph::Node n) const {
    parts.nodes.push_back(std::move(n));
    parts.sharing.push_back(Sharing::none);
    return static_cast<int>(parts.nodes.size()) - 1;
  }

  const Graph& graph_;
  const std::vector<Graph::Node>& nodes_;
  const std::vector<int>& index_;
  const bool training_;
  const int count_, mine_;
  std::vector<int> stages_, last_readers_;  ///< per node: its stage; the last stage that reads it
  std::vector<bool> wants_gradient_;        ///< per node: trained parameters, and the loss depends on it
  std::string bounds_;
};

void StageCutter::find_stages(const std::vector<std::string>& starts) {
  if (std::ssize(starts) != count_ - 1)
    refuse("{} stages begin at {}: expected the nodes with which all stages but the first begin", count_,
           counted(std::ssize(starts), "node"));
  stages_.assign(nodes_.size(), count_ - 1);
  std::size_t next = 0;
  for (std::size_t i = 0; i < graph_.nodes().size(); ++i) {
    if (next < starts.size() && graph_.nodes()[i].name == starts[next]) {
      bounds_ += "stage " + starts[next] + " ";
      ++next;
    }
    int& stage = stages_[static_cast<std::size_t>(index_[i])];
    stage = std::min(stage, static_cast<int>(next));
  }
  if (next < starts.size())
    refuse("stage {} begins at the node {}, which the network does not have behind the stage before", next + 2,
           starts[next]);
}

void StageCutter::find_last_readers() {
  last_readers_ = stages_;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    for (const int s : nodes_[i].srcs) {
      int& last = last_readers_[static_cast<std::size_t>(s)];
      last = std::max(last, stages_[i]);
    }
  const auto read_at_the_end = [&](int node) {
    last_readers_[static_cast<std::size_t>(index_[static_cast<std::size_t>(node)])] = count_ - 1;
  };
  for (const auto& [name, node] : graph_.outputs()) read_at_the_end(node);
  if (graph_.loss() >= 0 && stage(index_[static_cast<std::size_t>(graph_.loss())]) != count_ - 1)
    refuse("the loss is computed before the last of {} stages: give a smaller number of stages", count_);
}

void StageCutter::find_gradients() {
  std::vector<bool> trained(nodes_.size(), false), leads_to_loss(nodes_.size(), false);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Graph::Node& n = nodes_[i];
    if (n.is_input()) continue;
    for (const int s : n.srcs) trained[i] = trained[i] || trained[static_cast<std::size_t>(s)];
    for (const ParameterSpec& p : n.layer->parameters(source_shapes(nodes_, n)))
      trained[i] = trained[i] || p.kind == ParameterKind::trained;
  }
  if (graph_.loss() >= 0)
    leads_to_loss[static_cast<std::size_t>(index_[static_cast<std::size_t>(graph_.loss())])] = true;
  for (std::size_t i = nodes_.size(); i-- > 0;)
    if (leads_to_loss[i])
      for (const int s : nodes_[i].srcs) leads_to_loss[static_cast<std::size_t>(s)] = true;
  for (std::size_t i = 0; i < nodes_.size(); ++i) wants_gradient_.push_back(trained[i] && leads_to_loss[i]);
}

void StageCutter::require_own_parameters() const {
  std::map<std::string, int> stage_of;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Graph::Node& n = nodes_[i];
    if (n.is_input()) continue;
    if (training_ && n.layer->mixes_samples())
      refuse(
          "the layer {} ({}) computes with all samples of a batch together, but stages (--stages) compute "
          "micro-batches: "
          "leave --stages out, or train a network without such layers",
          n.name, n.layer->kind());
    for (const ParameterSpec& p : n.layer->parameters(source_shapes(nodes_, n))) {
      const auto [found, is_new] = stage_of.emplace(n.parameter(p.name), stages_[i]);
      if (!is_new && found->second != stages_[i])
        refuse(
            "the parameter {} belongs to layers of stages {} and {} (--stages): layers that share a parameter must be "
            "in "
            "one stage. Leave --stages out, or share no parameters (tied weights)",
            found->first, found->second + 1, stages_[i] + 1);
    }
  }
}

SpatialParts StageCutter::finish() {
  SpatialParts parts;
  std::vector<int> place(nodes_.size(), -1);  // in the result
  const int n = static_cast<int>(nodes_.size());
  for (int i = 0; i < n; ++i)
    if (nodes_[static_cast<std::size_t>(i)].is_input())
      place[static_cast<std::size_t>(i)] = add(parts, nodes_[static_cast<std::size_t>(i)]);
  for (int i = 0; i < n; ++i) {
    if (!goes_to(i, mine_)) continue;
    Graph::Node received;
    received.name = nodes_[static_cast<std::size_t>(i)].name + " of the stage before";
    received.shape = nodes_[static_cast<std::size_t>(i)].shape;
    received.is_received = true;
    received.layer = receive_layer(transfer(i, mine_ - 1));
    const int at = place[static_cast<std::size_t>(i)] = add(parts, std::move(received));
    if (training_ && wants_gradient_[static_cast<std::size_t>(i)]) parts.gradients_wanted.push_back(at);
  }
  for (int i = 0; i < n; ++i) {
    Graph::Node node = nodes_[static_cast<std::size_t>(i)];
    if (node.is_input()) continue;
    for (const ParameterSpec& p : node.layer->parameters(source_shapes(nodes_, node)))
      parts.parameters[node.parameter(p.name)] = {0, 0, stage(i) == mine_ ? p.shape[0] : 0};
    if (stage(i) != mine_) continue;
    for (int& s : node.srcs) s = place[static_cast<std::size_t>(s)];
    place[static_cast<std::size_t>(i)] = add(parts, std::move(node));
  }
  for (int i = 0; i < n && mine_ + 1 < count_; ++i) {
    if (!goes_to(i, mine_ + 1)) continue;
    Graph::Node sent;
    sent.name = nodes_[static_cast<std::size_t>(i)].name + " to the next stage";
    sent.shape = nodes_[static_cast<std::size_t>(i)].shape;
    sent.layer = send_layer(transfer(i, mine_));
    sent.srcs = {place[static_cast<std::size_t>(i)]};
    parts.sent.push_back(add(parts, std::move(sent)));
  }
  for (const int i : index_) parts.index.push_back(mine_ + 1 == count_ ? place[static_cast<std::size_t>(i)] : -1);
  parts.bounds = bounds_;
  return parts;
}

}  // namespace

SpatialParts stage_parts(const Graph& graph, const FusedNodes& fused, const PlanOptions& options) {
  const ProcessGrid* grid = options.grid;
  if (!grid || grid->extent(Axis::stage) == 1) return channel_parts(graph, fused, options);
  if (grid->extent({Axis::space, Axis::channel}) > 1)
    refuse(
        "stages (--stages) together with parts of samples (--spatial) or of channels (--channel-parallel): leave all "
        "but "
        "one of these options out");
  return StageCutter(graph, fused, options).finish();
}

std::vector<std::size_t> shortest_longest(const std::vector<double>& seconds, std::size_t stages) {
  const std::size_t n = seconds.size();
  std::vector<double> sums{0};
  for (const double s : seconds) sums.push_back(sums.back() + s);
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector longest(stages + 1, std::vector(n + 1, never));  // of the first elements in so many groups
  std::vector from(stages + 1, std::vector<std::size_t>(n + 1, 0));
  longest[0][0] = 0;
  for (std::size_t k = 1; k <= stages; ++k)
    for (std::size_t end = k; end <= n; ++end)
      for (std::size_t begin = k - 1; begin < end; ++begin) {
        const double here = std::max(longest[k - 1][begin], sums[end] - sums[begin]);
        if (here >= longest[k][end]) continue;
        longest[k][end] = here;
        from[k][end] = begin;
      }
  std::vector<std::size_t> ends;
  for (std::size_t k = stages, end = n; k > 0; end = from[k--][end]) ends.insert(ends.begin(), end);
  return ends;
}

std::vector<std::string> stage_starts(const Graph& graph, const FusedNodes& fused,
                                      const std::map<std::string, double>& seconds, int stages) {
  std::vector<int> nodes;  // that compute
  std::vector<double> times;
  for (std::size_t i = 0; i < fused.nodes.size(); ++i) {
    const Graph::Node& n = fused.nodes[i];
    if (n.is_input()) continue;
    nodes.push_back(static_cast<int>(i));
    const auto found = seconds.find(n.name);
    times.push_back(found == seconds.end() ? 0 : found->second);
  }
  if (stages > static_cast<int>(nodes.size()))
    refuse("{} stages (--stages), but the network has {} that compute: give at most as many stages", stages,
           counted(std::ssize(nodes), "layer"));
  std::vector<std::string> starts;
  for (const std::size_t end : shortest_longest(times, static_cast<std::size_t>(stages))) {
    if (end == nodes.size()) break;
    const auto first = std::ranges::find(fused.index, nodes[end]);
    starts.push_back(graph.nodes()[static_cast<std::size_t>(first - fused.index.begin())].name);
  }
  return starts;
}

std::vector<std::string> estimated_stage_starts(const Graph& graph, int stages) {
  PlanOptions plain;
  plain.fuse = false;
  const FusedNodes fused = fuse(graph, plain);
  std::map<std::string, double> work;
  for (const Graph::Node& n : fused.nodes) {
    if (n.is_input()) continue;
    constexpr double per_element = 4;
    const auto made = static_cast<double>(n.shape.shape.elements());
    double& here = work[n.name] = per_element * made;
    // Each element of a result reads the weights of its own filter or unit.
    for (const ParameterSpec& p : n.layer->parameters(source_shapes(fused.nodes, n)))
      if (p.shape.rank() >= 2 && p.shape[0] > 0) {
        const std::int64_t channels = n.shape.shape.rank() > 1 ? n.shape.shape[1] : 1;
        here += static_cast<double>(p.shape.elements()) * made / static_cast<double>(channels);
      }
  }
  return stage_starts(graph, fused, work, stages);
}

}  // namespace keelson
