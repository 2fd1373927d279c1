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
  ChannelCutter(const Graph& graph, const FusedNodes& fused, const ProcessGrid& grid)
      : fused_(fused),
        shared_(shared_parameters(graph)),
        ranks_(static_cast<std::size_t>(grid.extent(Axis::channel))),
        rank_(grid.coordinate(Axis::channel)) {}

  SpatialParts finish(const Graph& graph);

 private:
  /// How the ranks hold a value, and the node of the result that makes it.
  struct Value {
    ValueParts parts;
    int node = -1, gathered = -1;  ///< gathered: the node that makes it whole; -1: none yet
  };
  Rows mine(const ValueParts& parts) const { return parts.owned(static_cast<std::size_t>(rank_)); }
  std::optional<ValueParts> cut(const Graph::Node& n) const;
  int whole(int value, const std::string& reader);
  void add(Graph::Node n, bool in_parts) {
    result_.nodes.push_back(std::move(n));
    result_.in_parts.push_back(in_parts);
  }

  const FusedNodes& fused_;
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
  std::vector<ValueShape> shapes;
  for (const int s : n.srcs) shapes.push_back(fused_.nodes[static_cast<std::size_t>(s)].shape);
  const auto part = n.layer->channel_part(shapes, {0, channels});
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
int ChannelCutter::whole(int value, const std::string& reader) {
  Value& v = values_[static_cast<std::size_t>(value)];
  if (!v.parts.is_cut()) return v.node;
  if (v.gathered >= 0) return v.gathered;
  Graph::Node n;
  n.name = fmt::format("{}/channels of {}", reader, fused_.nodes[static_cast<std::size_t>(value)].name);
  n.layer = row_exchange_layer(
      {v.parts, std::vector<Rows>(ranks_, Rows{0, v.parts.extent}), rank_, 1, channel_dim, Axis::channel, reader});
  n.srcs = {v.node};
  n.shape = n.layer->infer({&result_.nodes[static_cast<std::size_t>(v.node)].shape, 1});
  v.gathered = static_cast<int>(result_.nodes.size());
  add(std::move(n), false);
  return v.gathered;
}

SpatialParts ChannelCutter::finish(const Graph& graph) {
  for (const Graph::Node& node : fused_.nodes) {
    Graph::Node n = node;
    const auto parts = cut(node);
    Value value;
    if (parts) {
      const Rows channels = mine(*parts);
      std::vector<ValueShape> shapes;
      for (const int s : node.srcs) shapes.push_back(fused_.nodes[static_cast<std::size_t>(s)].shape);
      auto part = *node.layer->channel_part(shapes, channels);
      for (int& s : n.srcs) s = part.reads_all ? whole(s, n.name) : values_[static_cast<std::size_t>(s)].node;
      if (part.layer) n.layer = std::move(part.layer);
      n.shape.shape[channel_dim] = channels.size();
      for (const auto& [own, dim] : part.parameters)
        result_.parameters[node.parameter(own)] = {dim, channels.begin, channels.size()};
      result_.alike = result_.alike && parts->extent % static_cast<std::int64_t>(ranks_) == 0;
      for (const std::int64_t b : parts->bounds) result_.bounds += fmt::format("{} channel {} ", n.name, b);
      value.parts = *parts;
    } else {
      for (int& s : n.srcs) s = whole(s, n.name);
    }
    value.node = static_cast<int>(result_.nodes.size());
    values_.push_back(std::move(value));
    add(std::move(n), parts.has_value());
  }
  for (const int i : fused_.index) result_.index.push_back(values_[static_cast<std::size_t>(i)].node);
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
  SpatialParts parts = ChannelCutter(graph, fused, *options.grid).finish(graph);
  if (parts.parameters.empty())
    refuse(
        "{} share the channels of each layer (--channel-parallel), but no layer has {} channels or more that can be "
        "computed apart: give a smaller number, or --spatial",
        counted(ranks, "rank"), least_channels * ranks);
  return parts;
}

}  // namespace keelson
