#include "apps/bench/scale/space_parts.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "engine/base/error.hpp"
#include "engine/plan/channel_layers.hpp"
#include "engine/plan/channel_parts.hpp"
#include "engine/plan/spatial_parts.hpp"

namespace keelson::bench {
namespace {

/// One dimension along which samples are cut.
struct CutDim {
  int parts = 1;
  std::vector<NodeParts> nodes;
};

/// Part of the node's work that the r-th rank along a dimension does.
double share_along(const CutDim& cut, std::size_t node, std::size_t r) {
  const NodeParts& p = cut.nodes[node];
  const auto part = [](std::int64_t rows, std::int64_t of) {
    return static_cast<double>(rows) / static_cast<double>(of);
  };
  if (p.value.is_cut()) {  // a rank that owns no row computes one of another rank, too
    const Rows rows = p.value.owned(r).empty() ? p.value.held[r] : p.value.owned(r);
    return part(rows.size(), p.value.extent);
  }
  if (!p.is_term) return 1;
  std::int64_t all = 0;
  for (const Rows& rows : p.sources[0]) all += rows.size();
  return part(p.sources[0][r].size(), all);
}

/// The nodes whose channels the ranks share.
struct ChannelNodes {
  std::string first;                              ///< from which on values are whole, or cut into channels; empty: none
  std::set<std::string> cut;                      ///< names
  std::multimap<std::string, std::string> reads;  ///< by reader: nodes whose channels all ranks gather for it
};

ChannelNodes channel_nodes(const Graph& graph, const FusedNodes& fused, const std::vector<int>& space) {
  ProcessGrid::Extents extents{.data = 1};
  for (const int parts : space) extents.space *= parts;
  if (space.size() > 1) extents.columns = space[1];
  const ProcessGrid grid(extents, 0);
  const PlanOptions options{.grid = &grid};
  const auto layers = channel_layers(graph, options);
  if (layers.empty()) return {};
  ChannelNodes found{.first = layers[0], .cut = {}, .reads = {}};
  const SpatialParts parts = channel_parts(graph, fused, options);
  for (std::size_t i = 0; i < parts.nodes.size(); ++i) {
    const Graph::Node& n = parts.nodes[i];
    if (parts.sharing[i] == Sharing::channels) found.cut.insert(n.name);
    if (n.srcs.empty() || n.layer->kind() != "rows") continue;
    const std::string& source = parts.nodes[static_cast<std::size_t>(n.srcs[0])].name;
    if (found.cut.contains(source)) found.reads.emplace(n.name.substr(0, n.name.find("/channels of ")), source);
  }
  return found;
}

class NodeSharer {
 public:
  NodeSharer(const FusedNodes& fused, std::vector<CutDim> dims, ChannelNodes channels)
      : fused_(fused), dims_(std::move(dims)), channels_(std::move(channels)) {}

  std::vector<NodeShare> of_rank(int rank) const {
    const auto at = coordinates(rank);
    std::set<std::pair<int, std::vector<std::int64_t>>> seen;  // an exchange serves all readers of the same rows
    std::vector<NodeShare> all(fused_.nodes.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      NodeShare& n = all[i];
      double kept = 1;
      n.interior = 1;
      for (std::size_t d = 0; d < dims_.size(); ++d) {
        n.share *= share_along(dims_[d], i, at[d]);
        n.interior *= interior(d, i, at[d]);
        kept *= held(d, i, at[d]);
      }
      n.value_bytes = kept * static_cast<double>(bytes(i));
      for (std::size_t s = 0; s < fused_.nodes[i].srcs.size(); ++s)
        for (std::size_t d = 0; d < dims_.size(); ++d) add_exchange(n, seen, i, s, d, at);
      share_channels(n, i, rank);
    }
    return all;
  }

 private:
  using Coordinates = std::vector<std::size_t>;

  void share_channels(NodeShare& n, std::size_t node, int rank) const {
    const std::string& name = fused_.nodes[node].name;
    int ranks = 1;
    for (const CutDim& d : dims_) ranks *= d.parts;
    if (channels_.cut.contains(name)) {
      n.share = n.parameters = 1.0 / ranks;
      n.interior = 0;
      n.value_bytes = static_cast<double>(bytes(node)) / ranks;
    }
    const auto [begin, end] = channels_.reads.equal_range(name);
    for (auto read = begin; read != end; ++read) {
      const auto source = std::ranges::find(fused_.nodes, read->second, &Graph::Node::name) - fused_.nodes.begin();
      std::vector<RowTransfer> others;
      for (int peer = 0; peer < ranks; ++peer)
        if (peer != rank)
          others.push_back({peer, bytes(static_cast<std::size_t>(source)) / static_cast<std::size_t>(ranks), true});
      n.exchanges.push_back({others, others});
    }
  }
  Coordinates coordinates(int rank) const {
    Coordinates at(dims_.size());
    for (std::size_t d = dims_.size(); d-- > 0; rank /= dims_[d].parts)
      at[d] = static_cast<std::size_t>(rank % dims_[d].parts);
    return at;
  }
  int number(const Coordinates& at) const {
    int rank = 0;
    for (std::size_t d = 0; d < dims_.size(); ++d) rank = rank * dims_[d].parts + static_cast<int>(at[d]);
    return rank;
  }
  std::size_t bytes(std::size_t node) const {
    const ValueShape& v = fused_.nodes[node].shape;
    return static_cast<std::size_t>(v.shape.elements()) * size_of(v.dtype);
  }
  /// Part of the value that the rank holds along the dimension.
  double held(std::size_t d, std::size_t node, std::size_t r) const {
    const ValueParts& v = dims_[d].nodes[node].value;
    return v.is_cut() ? static_cast<double>(v.held[r].size()) / static_cast<double>(v.extent) : 1;
  }
  /// Part of the value that the rank has for the reader, behind the exchange along the dimension.
  double wanted(std::size_t d, std::size_t reader, std::size_t s, std::size_t r) const {
    const ValueParts& v = value_of(d, reader, s);
    if (!v.is_cut() || dims_[d].nodes[reader].sources.empty()) return 1;
    const Rows rows = dims_[d].nodes[reader].sources[s][r].common({0, v.extent});
    return static_cast<double>(rows.size()) / static_cast<double>(v.extent);
  }
  const ValueParts& value_of(std::size_t d, std::size_t reader, std::size_t s) const {
    return dims_[d].nodes[static_cast<std::size_t>(fused_.nodes[reader].srcs[s])].value;
  }
  /// Part of the rank's rows that read no rows of other ranks.
  double interior(std::size_t d, std::size_t node, std::size_t r) const {
    const NodeParts& p = dims_[d].nodes[node];
    if (!p.value.is_cut() || p.sources.empty()) return 1;
    const Rows made = p.value.held[r];
    Rows inside = made;
    while (!inside.empty() && !reads_own_rows(d, node, r, inside.begin)) ++inside.begin;
    while (!inside.empty() && !reads_own_rows(d, node, r, inside.end - 1)) --inside.end;
    return static_cast<double>(inside.size()) / static_cast<double>(made.size());
  }
  bool reads_own_rows(std::size_t d, std::size_t node, std::size_t r, std::int64_t row) const {
    const Graph::Node& n = fused_.nodes[node];
    std::vector<ValueShape> shapes;
    for (const int s : n.srcs) shapes.push_back(fused_.nodes[static_cast<std::size_t>(s)].shape);
    const Rows reads = n.layer->part(shapes, dims_[d].nodes[node].dim, {row, row + 1})->reads;
    for (std::size_t s = 0; s < n.srcs.size(); ++s) {
      const ValueParts& v = value_of(d, node, s);
      const Rows inside = reads.common({0, v.extent});
      if (v.is_cut() && !inside.empty() && inside.common(v.held[r]) != inside) return false;
    }
    return true;
  }

  void add_exchange(NodeShare& n, std::set<std::pair<int, std::vector<std::int64_t>>>& seen, std::size_t node,
                    std::size_t s, std::size_t d, const Coordinates& at) const {
    const ValueParts& value = value_of(d, node, s);
    if (!value.is_cut()) return;
    const auto& wanted_rows = dims_[d].nodes[node].sources[s];
    if (wanted_rows == value.held) return;
    std::vector<std::int64_t> key{static_cast<std::int64_t>(d)};
    for (const Rows& rows : wanted_rows) key.insert(key.end(), {rows.begin, rows.end});
    if (!seen.emplace(fused_.nodes[node].srcs[s], std::move(key)).second) return;
    double across = 1;  // part of a row along the other dimensions: exchanges along earlier ones are over
    for (std::size_t other = 0; other < dims_.size(); ++other)
      if (other != d)
        across *= other < d ? wanted(other, node, s, at[other])
                            : held(other, static_cast<std::size_t>(fused_.nodes[node].srcs[s]), at[other]);
    const double row = across * static_cast<double>(bytes(static_cast<std::size_t>(fused_.nodes[node].srcs[s]))) /
                       static_cast<double>(value.extent);
    const auto transfers = row_transfers(value, wanted_rows, static_cast<int>(at[d]));
    const auto convert = [&](const std::vector<RowMessage>& messages) {
      std::vector<RowTransfer> all;
      for (const RowMessage& m : messages) {
        Coordinates peer = at;
        peer[d] = static_cast<std::size_t>(m.peer);
        all.push_back({number(peer), static_cast<std::size_t>(row * static_cast<double>(m.rows.size())), d > 0});
      }
      return all;
    };
    n.exchanges.push_back({convert(transfers.sends), convert(transfers.receives)});
  }

  const FusedNodes& fused_;
  std::vector<CutDim> dims_;
  ChannelNodes channels_;
};

void require_cut(const FusedNodes& fused, const CutDim& cut, int dim, const std::string& net) {
  const Graph::Node* widest = nullptr;
  for (std::size_t i = 0; i < fused.nodes.size(); ++i) {
    const Graph::Node& n = fused.nodes[i];
    if (!n.srcs.empty() || n.is_state) continue;
    if (cut.nodes[i].value.is_cut()) return;
    if (n.shape.shape.rank() > std::max(dim, 3) && !widest) widest = &n;
  }
  if (!widest)
    refuse("--spatial {}: the samples of {} have no spatial dimension {} that can be cut; leave --spatial out",
           cut.parts, net, dim - 1);
  const std::int64_t rows = widest->shape.shape[dim];
  refuse("--spatial {}: {} of {} has {} rows along spatial dimension {}; expected at most {} parts, give fewer",
         cut.parts, widest->name, net, rows, dim - 1, rows);
}

}  // namespace

std::vector<std::vector<NodeShare>> share_nodes(const Graph& graph, const FusedNodes& fused,
                                                const std::vector<int>& space, const std::string& net,
                                                bool by_channels) {
  ChannelNodes channels = by_channels ? channel_nodes(graph, fused, space) : ChannelNodes();
  std::vector<CutDim> dims;
  int ranks = 1, dim = 2;
  for (const int parts : space) {
    if (parts > 1) {
      dims.push_back({parts, sample_parts(fused, true, parts, dim, channels.first)});
      require_cut(fused, dims.back(), dim, net);
      ranks *= parts;
    }
    ++dim;
  }
  const NodeSharer sharer(fused, std::move(dims), std::move(channels));
  std::vector<std::vector<NodeShare>> shares;
  for (int r = 0; r < ranks; ++r) shares.push_back(sharer.of_rank(r));
  return shares;
}

}  // namespace keelson::bench
