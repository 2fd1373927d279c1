#include "engine/plan/channel_parts.hpp"

#include <algorithm>
#include <set>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/plan/row_exchange.hpp"

namespace keelson {
namespace {

using Axis = ProcessGrid::Axis;
constexpr int channel_dim = 1;
constexpr std::int64_t least_channels = 2;  ///< of a rank: with fewer, the exchange costs more than the layer

/// Names of parameters that several nodes have.
std::set<std::string> shared_parameters(const Graph& graph) {
  std::set<std::string> names;
  for (const Graph::Node& n : graph.nodes())
    for (const auto& [own, other] : n.shared) names.insert(other);
  return names;
}

class ChannelCutter {
 public:
  ChannelCutter(const Graph& graph, const FusedNodes& fused, const PlanOptions& options)
      : fused_(fused),
        training_(options.training),
        shared_(shared_parameters(graph)),
        ranks_(static_cast<std::size_t>(options.grid->extent(Axis::channel))),
        rank_(options.grid->coordinate(Axis::channel)) {}

  SpatialParts finish(const Graph& graph);

 private:
  /// How the ranks hold a value, and the node of the result that makes it.
  struct Value {
    ValueParts parts;
    int node = -1, gathered = -1;  ///< gathered: the node that makes it whole; -1: none yet
  };
  Rows mine(const ValueParts& parts) const { return parts.owned(static_cast<std::size_t>(rank_)); }
  std::optional<ValueParts> cut(const Graph::Node& n) const;
  Graph::Node part_of(const Graph::Node& node, const ValueParts& parts);
  std::optional<Graph::Node> term_of(const Graph::Node& node);
  std::vector<ValueShape> source_shapes(const Graph::Node& n) const;
  int sums_of_all_ranks(const std::string& reader, std::shared_ptr<const Layer> layer, int source);
  int whole(int node, const std::string& reader);
  std::shared_ptr<const Layer> gathers(const ValueParts& parts, const std::string& reader) const {
    return row_exchange_layer(
        {parts, std::vector<Rows>(ranks_, Rows{0, parts.extent}), rank_, 1, channel_dim, Axis::channel, reader});
  }
  Value& value(int node) { return values_[static_cast<std::size_t>(node)]; }
  void hash_bounds(const std::string& name, const ValueParts& parts) {
    for (const std::int64_t b : parts.bounds) result_.bounds += fmt::format("{} channel {} ", name, b);
  }
  void add(Graph::Node n, bool in_parts) {
    result_.nodes.push_back(std::move(n));
    result_.in_parts.push_back(in_parts);
  }

  const FusedNodes& fused_;
  const bool training_;
  const std::set<std::string> shared_;
  const std::size_t ranks_;
  const int rank_;
  std::vector<Value> values_;  ///< per node
  SpatialParts result_;
};

/// The parts of the node's result; no value: each rank computes all channels.
std::optional<ValueParts> ChannelCutter::cut(const Graph::Node& n) const {
  const Shape& shape = n.shape.shape;
  if (n.srcs.empty() || shape.rank() <= channel_dim || n.shape.batch_axis != 0) return {};
  const std::int64_t channels = shape[channel_dim], ranks = static_cast<std::int64_t>(ranks_);
  if (channels < least_channels * ranks) return {};
  const auto part = n.layer->channel_part(source_shapes(n), {0, channels});
  if (!part) return {};
  for (const auto& [own, dim] : part->parameters)
    if (shared_.contains(n.parameter(own))) return {};
  std::vector<std::int64_t> bounds;
  for (std::int64_t r = 0; r <= ranks; ++r) bounds.push_back(r * channels / ranks);
  if (part->reads_all) return ValueParts::cut(std::move(bounds));
  const auto has_the_same = [&](int s) { return values_[static_cast<std::size_t>(s)].parts.bounds == bounds; };
  if (!std::ranges::all_of(n.srcs, has_the_same)) return {};
  return ValueParts::cut(std::move(bounds));
}

/// The node of the result that makes the whole value.
int ChannelCutter::whole(int node, const std::string& reader) {
  Value& v = value(node);
  if (!v.parts.is_cut()) return v.node;
  if (v.gathered >= 0) return v.gathered;
  Graph::Node n;
  n.name = fmt::format("{}/channels of {}", reader, fused_.nodes[static_cast<std::size_t>(node)].name);
  n.layer = gathers(v.parts, reader);
  n.srcs = {v.node};
  n.shape = n.layer->infer({&result_.nodes[static_cast<std::size_t>(v.node)].shape, 1});
  v.gathered = static_cast<int>(result_.nodes.size());
  add(std::move(n), false);
  return v.gathered;
}

std::vector<ValueShape> ChannelCutter::source_shapes(const Graph::Node& n) const {
  std::vector<ValueShape> shapes;
  for (const int s : n.srcs) shapes.push_back(fused_.nodes[static_cast<std::size_t>(s)].shape);
  return shapes;
}

/// The node that computes this rank's channels of the result.
Graph::Node ChannelCutter::part_of(const Graph::Node& node, const ValueParts& parts) {
  Graph::Node n = node;
  const Rows channels = mine(parts);
  auto part = *node.layer->channel_part(source_shapes(node), channels);
  for (int& s : n.srcs) s = part.reads_all ? whole(s, n.name) : value(s).node;
  if (part.layer) n.layer = std::move(part.layer);
  n.shape.shape[channel_dim] = channels.size();
  for (const auto& [own, dim] : part.parameters)
    result_.parameters[node.parameter(own)] = {dim, channels.begin, channels.size()};
  result_.alike = result_.alike && parts.extent % static_cast<std::int64_t>(ranks_) == 0;
  hash_bounds(n.name, parts);
  return n;
}

/// The node that computes this rank's term of a sum over the channels of the first source, if that source is cut.
std::optional<Graph::Node> ChannelCutter::term_of(const Graph::Node& node) {
  if (!training_ || node.shape.batch_axis >= 0 || node.srcs.empty()) return {};
  const Value& first = value(node.srcs[0]);
  if (!first.parts.is_cut()) return {};
  auto term = node.layer->channel_term(source_shapes(node), mine(first.parts), static_cast<int>(ranks_));
  if (!term) return {};
  Graph::Node n = node;
  n.layer = std::move(term->layer);
  n.srcs[0] = first.node;
  for (std::size_t s = 1; s < n.srcs.size(); ++s) n.srcs[s] = whole(n.srcs[s], n.name);
  if (term->sums) n.srcs.push_back(sums_of_all_ranks(n.name, std::move(term->sums), first.node));
  hash_bounds(n.name, first.parts);
  return n;
}

/// The node of the result that has the sums that all ranks make from their channels of a value.
int ChannelCutter::sums_of_all_ranks(const std::string& reader, std::shared_ptr<const Layer> layer, int source) {
  const auto node = [&](const char* what, std::shared_ptr<const Layer> makes, int src, bool in_parts) {
    Graph::Node n;
    n.name = fmt::format("{}/{}", reader, what);
    n.srcs = {src};
    n.shape = makes->infer({&result_.nodes[static_cast<std::size_t>(src)].shape, 1});
    n.layer = std::move(makes);
    add(std::move(n), in_parts);
    return static_cast<int>(result_.nodes.size()) - 1;
  };
  const int own = node("sums", std::move(layer), source, true);
  const std::int64_t columns = result_.nodes.back().shape.shape[channel_dim];
  std::vector<std::int64_t> bounds;
  for (std::size_t r = 0; r <= ranks_; ++r) bounds.push_back(static_cast<std::int64_t>(r) * columns);
  return node("sums of all ranks", gathers(ValueParts::cut(std::move(bounds)), reader), own, false);
}

SpatialParts ChannelCutter::finish(const Graph& graph) {
  for (const Graph::Node& node : fused_.nodes) {
    Value made;
    if (const auto parts = cut(node)) {
      made.parts = *parts;
      add(part_of(node, *parts), true);
    } else if (auto term = term_of(node)) {
      add(std::move(*term), true);
    } else {
      Graph::Node n = node;
      for (int& s : n.srcs) s = whole(s, n.name);
      add(std::move(n), false);
    }
    made.node = static_cast<int>(result_.nodes.size()) - 1;
    values_.push_back(std::move(made));
  }
  for (const int i : fused_.index) result_.index.push_back(value(i).node);
  for (const auto& [name, output] : graph.outputs()) {
    const auto i = static_cast<std::size_t>(output);
    result_.index[i] = whole(fused_.index[i], name);
  }
  return std::move(result_);
}

}  // namespace

SpatialParts channel_parts(const Graph& graph, const FusedNodes& fused, const PlanOptions& options) {
  const int ranks = options.grid ? options.grid->extent(Axis::channel) : 1;
  if (ranks == 1) return spatial_parts(graph, fused, options);
  if (options.grid->extent(Axis::space) > 1)
    refuse(
        "parts of samples (--spatial) and parts of channels (--channel-parallel) in one network: leave one of the two "
        "options out");
  SpatialParts parts = ChannelCutter(graph, fused, options).finish(graph);
  if (parts.parameters.empty())
    refuse(
        "{} share the channels of each layer (--channel-parallel), but no layer has {} channels or more that can be "
        "computed apart: give a smaller number, or --spatial",
        counted(ranks, "rank"), least_channels * ranks);
  return parts;
}

}  // namespace keelson
