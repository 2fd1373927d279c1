#include "engine/plan/channel_parts.hpp"

#include <algorithm>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/plan/channel_layers.hpp"
#include "engine/plan/row_exchange.hpp"

namespace keelson {
namespace {

using Axis = ProcessGrid::Axis;

/// The ranks that share channels.
struct ChannelRanks {
  Axis axis = Axis::channel;
  std::optional<std::set<std::string>> layers = {};  ///< of those that read all channels, the ones to cut; none: all
};

/// Cuts nodes of which some may work on rows already: these stay as they are.
class ChannelCutter {
 public:
  ChannelCutter(const Graph& graph, const SpatialParts& given, const PlanOptions& options, ChannelRanks ranks)
      : graph_(graph),
        given_(given),
        training_(options.training),
        of_(std::move(ranks)),
        ranks_(static_cast<std::size_t>(options.grid->extent(of_.axis))),
        rank_(options.grid->coordinate(of_.axis)),
        rule_(graph, static_cast<int>(ranks_)) {
    result_.inputs = given.inputs;
    result_.alike = given.alike;
    result_.bounds = given.bounds;
    result_.channel_axis = of_.axis;
  }

  SpatialParts finish();

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
        {parts, std::vector<Rows>(ranks_, Rows{0, parts.extent}), rank_, 1, ChannelRule::dim, of_.axis, true, reader});
  }
  Value& value(int node) { return values_[static_cast<std::size_t>(node)]; }
  void hash_bounds(const std::string& name, const ValueParts& parts) {
    for (const std::int64_t b : parts.bounds) result_.bounds += fmt::format("{} channel {} ", name, b);
  }
  void add(Graph::Node n, Sharing sharing) {
    result_.nodes.push_back(std::move(n));
    result_.sharing.push_back(sharing);
  }

  const Graph& graph_;
  const SpatialParts& given_;
  const bool training_;
  const ChannelRanks of_;
  const std::size_t ranks_;
  const int rank_;
  const ChannelRule rule_;
  std::vector<Value> values_;  ///< per node
  SpatialParts result_;
};

/// The parts of the node's result; no value: each rank computes all channels.
std::optional<ValueParts> ChannelCutter::cut(const Graph::Node& n) const {
  const auto part = rule_.part(n, source_shapes(n));
  if (!part || (part->reads_all && of_.layers && !of_.layers->contains(n.name))) return {};
  const std::int64_t channels = n.shape.shape[ChannelRule::dim], ranks = static_cast<std::int64_t>(ranks_);
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
  n.name = fmt::format("{}/channels of {}", reader, given_.nodes[static_cast<std::size_t>(node)].name);
  n.layer = gathers(v.parts, reader);
  n.srcs = {v.node};
  n.shape = n.layer->infer({&result_.nodes[static_cast<std::size_t>(v.node)].shape, 1});
  v.gathered = static_cast<int>(result_.nodes.size());
  add(std::move(n), Sharing::none);
  return v.gathered;
}

std::vector<ValueShape> ChannelCutter::source_shapes(const Graph::Node& n) const {
  std::vector<ValueShape> shapes;
  for (const int s : n.srcs) shapes.push_back(given_.nodes[static_cast<std::size_t>(s)].shape);
  return shapes;
}

/// The node that computes this rank's channels of the result.
Graph::Node ChannelCutter::part_of(const Graph::Node& node, const ValueParts& parts) {
  Graph::Node n = node;
  const Rows channels = mine(parts);
  auto part = *node.layer->channel_part(source_shapes(node), channels);
  for (int& s : n.srcs) s = part.reads_all ? whole(s, n.name) : value(s).node;
  if (part.layer) n.layer = std::move(part.layer);
  n.shape.shape[ChannelRule::dim] = channels.size();
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
  const auto node = [&](const char* what, std::shared_ptr<const Layer> makes, int src, Sharing sharing) {
    Graph::Node n;
    n.name = fmt::format("{}/{}", reader, what);
    n.srcs = {src};
    n.shape = makes->infer({&result_.nodes[static_cast<std::size_t>(src)].shape, 1});
    n.layer = std::move(makes);
    add(std::move(n), sharing);
    return static_cast<int>(result_.nodes.size()) - 1;
  };
  const int own = node("sums", std::move(layer), source, Sharing::channels);
  const std::int64_t columns = result_.nodes.back().shape.shape[ChannelRule::dim];
  std::vector<std::int64_t> bounds;
  for (std::size_t r = 0; r <= ranks_; ++r) bounds.push_back(static_cast<std::int64_t>(r) * columns);
  return node("sums of all ranks", gathers(ValueParts::cut(std::move(bounds)), reader), own, Sharing::none);
}

SpatialParts ChannelCutter::finish() {
  for (std::size_t i = 0; i < given_.nodes.size(); ++i) {
    const Graph::Node& node = given_.nodes[i];
    Value made;
    const bool has_rows = given_.sharing[i] == Sharing::rows;
    if (const auto parts = has_rows ? std::nullopt : cut(node)) {
      made.parts = *parts;
      add(part_of(node, *parts), Sharing::channels);
    } else if (auto term = has_rows ? std::nullopt : term_of(node)) {
      add(std::move(*term), Sharing::channels);
    } else {
      Graph::Node n = node;
      for (int& s : n.srcs) s = whole(s, n.name);
      add(std::move(n), given_.sharing[i]);
    }
    made.node = static_cast<int>(result_.nodes.size()) - 1;
    values_.push_back(std::move(made));
  }
  for (const int i : given_.index) result_.index.push_back(value(i).node);
  for (const auto& [name, output] : graph_.outputs()) {
    const auto i = static_cast<std::size_t>(output);
    result_.index[i] = whole(given_.index[i], name);
  }
  return std::move(result_);
}

}  // namespace

SpatialParts channel_parts(const Graph& graph, const FusedNodes& fused, const PlanOptions& options) {
  const int ranks = options.grid ? options.grid->extent(Axis::channel) : 1;
  if (ranks > 1 && options.grid->extent(Axis::space) > 1)
    refuse(
        "parts of samples (--spatial) and parts of channels (--channel-parallel) in one network: leave one of the two "
        "options out");
  SpatialParts given = spatial_parts(graph, fused, options);
  if (ranks == 1) {
    const auto layers = channel_layers(graph, options);
    if (layers.empty()) return given;
    return ChannelCutter(graph, given, options, {Axis::space, std::set(layers.begin(), layers.end())}).finish();
  }
  SpatialParts parts = ChannelCutter(graph, given, options, {}).finish();
  if (parts.parameters.empty())
    refuse(
        "{} share the channels of each layer (--channel-parallel), but no layer has {} channels or more that can be "
        "computed apart: give a smaller number, or --spatial",
        counted(ranks, "rank"), ChannelRule::least_channels * ranks);
  return parts;
}

}  // namespace keelson
