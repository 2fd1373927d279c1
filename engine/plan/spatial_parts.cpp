#include "engine/plan/spatial_parts.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/plan/channel_layers.hpp"
#include "engine/plan/row_exchange.hpp"

namespace keelson {

namespace {

constexpr int first_spatial = 2;  ///< dimension of images and volumes: rows, depth

/// One dimension that is cut.
struct Cut {
  int dim = first_spatial;    ///< of images and volumes
  int parts = 1, part = 0;    ///< along this dimension; number of this rank's, for finish()
  int step = 1;               ///< ranks along space from one part to the next
  std::string rows = "rows";  ///< what is exchanged: "rows", "columns"
  bool whole_inputs = false;  ///< each rank reads all of an input's extent
  /// The node from which on nodes read whole values, also where they have a rule for rows; empty: none does.
  std::string whole_from = {};
};

class SampleCutter {
 public:
  SampleCutter(const FusedNodes& fused, bool training, Cut cut)
      : fused_(fused),
        training_(training),
        cut_(std::move(cut)),
        ranks_(static_cast<std::size_t>(cut_.parts)),
        parts_(fused.nodes.size()),
        whole_from_(first_whole_node()) {
    find_dims();
    for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i].dim = dims_[i];
    find_strides();
    for (std::size_t i = 0; i < parts_.size(); ++i) this->cut(i);
    find_rows_of_inputs();
  }
  /// The nodes of this rank.
  SpatialParts finish(const Graph& graph);
  std::vector<NodeParts> take_parts() { return std::move(parts_); }

 private:
  const Graph::Node& node(std::size_t i) const { return fused_.nodes[i]; }
  std::size_t first_whole_node() const {
    const auto found = std::ranges::find(fused_.nodes, cut_.whole_from, &Graph::Node::name);
    return static_cast<std::size_t>(found - fused_.nodes.begin());
  }
  bool may_be_cut(std::size_t i) const { return i < whole_from_; }
  std::vector<ValueShape> source_shapes(std::size_t i) const {
    std::vector<ValueShape> shapes;
    for (const int s : node(i).srcs) shapes.push_back(node(static_cast<std::size_t>(s)).shape);
    return shapes;
  }
  bool has_rows(std::size_t i) const { return dims_[i] >= 0; }
  /// Rows of the whole value; 1 for values that have none.
  std::int64_t extent(std::size_t i) const { return has_rows(i) ? node(i).shape.shape[dims_[i]] : 1; }
  /// What the layer needs for these rows; no value where it needs whole sources.
  std::optional<LayerPart> part(std::size_t i, const Rows& rows) const {
    if (!has_rows(i) || !may_be_cut(i)) return {};
    for (const int s : node(i).srcs)
      if (node(static_cast<std::size_t>(s)).shape.shape.rank() != node(i).shape.shape.rank()) return {};
    return node(i).layer->part(source_shapes(i), cut_.dim, rows);
  }
  /// What the layer needs for its term of these rows of source 0; no value where it needs whole sources.
  std::optional<LayerPart> term(std::size_t i, const Rows& rows) const {
    if (!training_ || !may_be_cut(i) || node(i).srcs.empty() || node(i).shape.batch_axis >= 0) return {};
    return node(i).layer->term(source_shapes(i), cut_.dim, rows);
  }
  const NodeParts& source(std::size_t i, std::size_t s) const {
    return parts_[static_cast<std::size_t>(node(i).srcs[s])];
  }
  /// The first of a node's sources that is cut; no value: all are whole.
  std::optional<std::size_t> first_cut_source(std::size_t i) const {
    for (std::size_t s = 0; s < node(i).srcs.size(); ++s)
      if (source(i, s).stride > 0) return s;
    return {};
  }
  void find_dims();
  void find_strides();
  void cut_input(std::size_t i);
  bool cut_sum(std::size_t i);
  void cut(std::size_t i);
  bool cut_node(std::size_t i, std::size_t by);
  void find_rows_of_inputs();
  bool are_alike(std::size_t i) const;
  int emit_source(SpatialParts& result, std::size_t i, std::size_t s);
  int emit_rows(SpatialParts& result, int of, std::vector<Rows> wanted, const std::string& reader);
  std::string bounds() const;

  const FusedNodes& fused_;
  bool training_;
  Cut cut_;
  std::size_t ranks_;
  std::vector<int> dims_;  ///< per node: the dimension that counts rows; -1: the value has none
  std::vector<NodeParts> parts_;
  std::size_t whole_from_;  ///< number of Cut::whole_from; of nodes, if there is none
  std::int64_t unit_ = 1;   ///< product of the strides on the way through the parts
  std::vector<int> index_;  ///< per node: its place in the result
  std::map<std::pair<int, std::vector<std::pair<std::int64_t, std::int64_t>>>, int> exchanges_;
};

/// Targets of losses of pixels have no channels, so the rows of those of images are another dimension; those of volumes
/// stay whole.
void SampleCutter::find_dims() {
  for (const Graph::Node& n : fused_.nodes)
    dims_.push_back(n.shape.shape.rank() > std::max(cut_.dim, 3) ? cut_.dim : -1);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto of = term(i, {0, 1});
    for (std::size_t s = 0; of && s < of->dims.size(); ++s)
      if (const auto src = static_cast<std::size_t>(node(i).srcs[s]); node(src).srcs.empty() && s > 0)
        dims_[src] = node(src).shape.shape.rank() == 3 ? of->dims[s] : -1;
  }
}

/// Finds which values can be cut. Inputs have rows for each rank; of other values some ranks may own no row.
void SampleCutter::find_strides() {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto enough_rows = [&](std::int64_t least) { return has_rows(i) && extent(i) >= least; };
    if (node(i).srcs.empty()) {
      parts_[i].stride = enough_rows(static_cast<std::int64_t>(ranks_)) && !node(i).is_state ? 1 : 0;
      continue;
    }
    const auto by = first_cut_source(i);
    parts_[i].is_term = by == std::size_t{0} && term(i, {0, 1});
    if (!by || !enough_rows(2)) continue;
    const std::int64_t middle = std::max<std::int64_t>(extent(i) / 2, 1);
    const auto here = part(i, {middle, middle + 1}), before = part(i, {middle - 1, middle});
    if (!here) continue;
    parts_[i].stride = source(i, *by).stride * std::max<std::int64_t>(here->reads.begin - before->reads.begin, 1);
    unit_ = std::max(unit_, parts_[i].stride);
  }
}

void SampleCutter::cut_input(std::size_t i) {
  NodeParts& p = parts_[i];
  const auto reads_parts = [&](std::size_t reader) {
    const auto& srcs = node(reader).srcs;
    return (parts_[reader].stride > 0 || parts_[reader].is_term) &&
           std::count(srcs.begin(), srcs.end(), static_cast<int>(i)) > 0;
  };
  bool is_read_in_parts = false;
  for (std::size_t reader = i + 1; reader < parts_.size(); ++reader)
    is_read_in_parts = is_read_in_parts || reads_parts(reader);
  if (p.stride > 0 && is_read_in_parts) {
    p.value = ValueParts::cut(part_bounds(extent(i), static_cast<int>(ranks_), unit_));
    return;
  }
  p.stride = 0;
  p.value = ValueParts::whole(extent(i), ranks_);
}

void SampleCutter::cut(std::size_t i) {
  NodeParts& p = parts_[i];
  if (node(i).srcs.empty()) return cut_input(i);
  p.layers.resize(ranks_);
  const auto by = first_cut_source(i);
  if (by && p.stride > 0 && cut_node(i, *by)) return;
  p.stride = 0;
  p.value = ValueParts::whole(extent(i), ranks_);
  p.is_term = p.is_term && cut_sum(i);
  if (p.is_term) return;
  const bool has_no_rule = by && has_rows(i) && may_be_cut(i) && !part(i, {0, 1});
  if (has_no_rule && cut_.dim != first_spatial)
    refuse(
        "the layer {} ({}) cannot compute parts along two dimensions (--spatial DxH): give a number of parts along "
        "the first dimension alone",
        node(i).name, node(i).layer->kind());
  if (has_no_rule)
    refuse(
        "the layer {} ({}) cannot compute parts of samples (--spatial): its result needs whole samples. Leave "
        "--spatial "
        "out, or train a network without such layers",
        node(i).name, node(i).layer->kind());
  for (std::size_t s = 0; s < node(i).srcs.size(); ++s)
    p.sources.emplace_back(ranks_, Rows{0, extent(static_cast<std::size_t>(node(i).srcs[s]))});
}

/// Returns false where a source is whole, or a rank owns no row.
bool SampleCutter::cut_sum(std::size_t i) {
  NodeParts& p = parts_[i];
  std::vector<Rows> reads;
  for (std::size_t s = 0; s < node(i).srcs.size(); ++s)
    if (!source(i, s).value.is_cut()) return false;
  for (std::size_t r = 0; r < ranks_; ++r) {
    if (source(i, 0).value.owned(r).empty()) return false;
    auto of_rank = *term(i, source(i, 0).value.owned(r));
    reads.push_back(of_rank.reads);
    p.layers[r] = std::move(of_rank.layer);
  }
  p.sources.assign(node(i).srcs.size(), reads);
  return true;
}

/// Returns false where a rank would own no row of a layer that mixes samples, whose sums count each row once. `by`: the
/// source whose bounds decide.
bool SampleCutter::cut_node(std::size_t i, std::size_t by) {
  NodeParts& p = parts_[i];
  const auto middle = [&](std::int64_t row) {
    const Rows reads = part(i, {row, row + 1})->reads;
    return reads.begin + (reads.size() - 1) / 2;
  };
  std::vector<std::int64_t> bounds{0};
  const auto& source_bounds = source(i, by).value.bounds;
  for (std::size_t r = 1; r < ranks_; ++r) {
    std::int64_t low = bounds.back(), high = extent(i);  // the first row whose middle is at the bound or behind it
    while (low < high) {
      const std::int64_t row = low + (high - low) / 2;
      if (middle(row) < source_bounds[r])
        low = row + 1;
      else
        high = row;
    }
    bounds.push_back(low);
  }
  bounds.push_back(extent(i));
  const bool owns_nothing = std::adjacent_find(bounds.begin(), bounds.end()) != bounds.end();
  if (owns_nothing && training_ && node(i).layer->mixes_samples()) return false;
  p.value = ValueParts::cut(std::move(bounds));
  std::vector<Rows> reads;
  for (std::size_t r = 0; r < ranks_; ++r) {
    // A rank that owns no row computes a neighbour's row, too, in the time in which the neighbour computes it. So all
    // ranks have the same layers. Gradients go to the copy that was read.
    if (const std::int64_t row = std::min(p.value.bounds[r], extent(i) - 1); p.value.owned(r).empty())
      p.value.held[r] = {row, row + 1};
    auto of_rank = *part(i, p.value.held[r]);
    reads.push_back(of_rank.reads);
    p.layers[r] = std::move(of_rank.layer);
    p.paddings.push_back(std::move(of_rank.padding));
  }
  p.sources.assign(node(i).srcs.size(), reads);
  return true;
}

/// Ranks read the rows of inputs that their first layers want, so that these rows need no exchange. They read all
/// columns of these rows.
void SampleCutter::find_rows_of_inputs() {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (!node(i).srcs.empty() || !parts_[i].value.is_cut()) continue;
    std::vector<Rows> held(ranks_, cut_.whole_inputs ? Rows{0, extent(i)} : Rows{});
    for (std::size_t reader = i + 1; !cut_.whole_inputs && reader < parts_.size(); ++reader)
      for (std::size_t s = 0; s < node(reader).srcs.size(); ++s) {
        if (node(reader).srcs[s] != static_cast<int>(i)) continue;
        const bool in_parts = parts_[reader].on_parts();
        for (std::size_t r = 0; r < ranks_; ++r)
          held[r] = held[r].hull(in_parts ? parts_[reader].sources[s][r] : parts_[i].value.owned(r));
      }
    parts_[i].value.held = std::move(held);
  }
}

/// Whether all ranks have parts of the same size, from as many rows, that their layers pad alike.
bool SampleCutter::are_alike(std::size_t i) const {
  const NodeParts& p = parts_[i];
  if (!p.value.is_cut()) return true;
  for (std::size_t r = 1; r < ranks_; ++r) {
    if (p.value.held[r].size() != p.value.held[0].size() || (!p.paddings.empty() && p.paddings[r] != p.paddings[0]))
      return false;
    for (const auto& reads : p.sources)
      if (reads[r].size() != reads[0].size()) return false;
  }
  return true;
}

/// Appends an exchange of rows of the node `of` of the result, unless the ranks already have these rows.
int SampleCutter::emit_rows(SpatialParts& result, int of, std::vector<Rows> wanted, const std::string& reader) {
  const auto producer = static_cast<std::size_t>(std::find(index_.begin(), index_.end(), of) - index_.begin());
  const ValueParts& value = parts_[producer].value;
  if (wanted == value.held) return of;
  std::vector<std::pair<std::int64_t, std::int64_t>> key;
  for (const Rows& rows : wanted) key.emplace_back(rows.begin, rows.end);
  auto [known, fresh] = exchanges_.try_emplace({of, std::move(key)}, static_cast<int>(result.nodes.size()));
  if (!fresh) return known->second;
  Graph::Node n;
  n.name = fmt::format("{}/{} of {}", reader, cut_.rows, node(producer).name);
  n.layer = row_exchange_layer(
      {value, std::move(wanted), cut_.part, cut_.step, dims_[producer], ProcessGrid::Axis::space, false, reader});
  n.srcs = {of};
  n.shape = n.layer->infer({&result.nodes[static_cast<std::size_t>(of)].shape, 1});
  result.nodes.push_back(std::move(n));
  result.sharing.push_back(Sharing::none);
  return known->second;
}

int SampleCutter::emit_source(SpatialParts& result, std::size_t i, std::size_t s) {
  const auto src = static_cast<std::size_t>(node(i).srcs[s]);
  if (!has_rows(src)) return index_[src];
  return emit_rows(result, index_[src], parts_[i].sources[s], node(i).name);
}

SpatialParts SampleCutter::finish(const Graph& graph) {
  SpatialParts result;
  const auto me = static_cast<std::size_t>(cut_.part);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Graph::Node n = node(i);
    const NodeParts& p = parts_[i];
    for (std::size_t s = 0; s < n.srcs.size(); ++s) n.srcs[s] = emit_source(result, i, s);
    if (!n.srcs.empty() && p.layers[me]) n.layer = p.layers[me];
    if (p.value.is_cut()) n.shape.shape[dims_[i]] = p.value.held[me].size();
    if (p.value.is_cut() && n.srcs.empty() && !cut_.whole_inputs) result.inputs[n.name] = p.value.held[me];
    result.alike = result.alike && are_alike(i);
    index_.push_back(static_cast<int>(result.nodes.size()));
    result.nodes.push_back(std::move(n));
    result.sharing.push_back(p.on_parts() ? Sharing::rows : Sharing::none);
  }
  for (const int i : fused_.index) result.index.push_back(index_[static_cast<std::size_t>(i)]);
  for (const auto& [name, output] : graph.outputs()) {
    const auto i = static_cast<std::size_t>(fused_.index[static_cast<std::size_t>(output)]);
    if (!parts_[i].value.is_cut() || training_) continue;
    const std::vector<Rows> all(ranks_, Rows{0, extent(i)});
    result.index[static_cast<std::size_t>(output)] = emit_rows(result, index_[i], all, name);
  }
  result.bounds = bounds();
  return result;
}

std::string SampleCutter::bounds() const {
  std::string text;
  for (std::size_t i = 0; i < parts_.size(); ++i)
    for (const std::int64_t b : parts_[i].value.bounds) text += fmt::format("{} {} ", node(i).name, b);
  return text;
}

}  // namespace

namespace {

/// Throws InputError for layers whose results for a part along one dimension cannot be cut along another one.
void require_blocks(const SpatialParts& of_rows, const ProcessGrid& grid) {
  for (std::size_t i = 0; i < of_rows.nodes.size(); ++i) {
    const Graph::Node& n = of_rows.nodes[i];
    const bool is_term = of_rows.sharing[i] != Sharing::none && n.shape.batch_axis < 0;
    if (n.srcs.empty() || (!n.layer->mixes_samples() && !is_term)) continue;
    refuse(
        "the layer {} ({}) sums over parts of samples along one dimension alone: give --spatial {} in place of {}x{}",
        n.name, n.layer->kind(), grid.extent(ProcessGrid::Axis::space), grid.rows(), grid.columns());
  }
}

}  // namespace

SpatialParts spatial_parts(const Graph& graph, const FusedNodes& fused, const PlanOptions& options) {
  if (!options.grid || options.grid->extent(ProcessGrid::Axis::space) == 1)
    return {.nodes = fused.nodes, .index = fused.index, .sharing = std::vector(fused.nodes.size(), Sharing::none)};
  const ProcessGrid& grid = *options.grid;
  const int number = grid.coordinate(ProcessGrid::Axis::space), columns = grid.columns();
  const auto by_channels = channel_layers(graph, options);
  const std::string whole_from = by_channels.empty() ? "" : by_channels[0];
  auto parts = SampleCutter(fused, options.training,
                            {.dim = first_spatial,
                             .parts = grid.rows(),
                             .part = number / columns,
                             .step = columns,
                             .whole_from = whole_from})
                   .finish(graph);
  if (columns == 1) return parts;
  require_blocks(parts, grid);
  const FusedNodes of_rows{parts.nodes, parts.index};
  auto blocks = SampleCutter(of_rows, options.training,
                             {first_spatial + 1, columns, number % columns, 1, "columns", true, whole_from})
                    .finish(graph);
  blocks.inputs = parts.inputs;
  blocks.alike = blocks.alike && parts.alike;
  blocks.bounds = parts.bounds + blocks.bounds;
  return blocks;
}

std::vector<NodeParts> sample_parts(const FusedNodes& fused, bool training, int ranks, int dim,
                                    const std::string& whole_from) {
  return SampleCutter(fused, training, {.dim = dim, .parts = ranks, .whole_from = whole_from}).take_parts();
}

std::map<std::string, Rows> input_rows(const Graph& graph, const PlanOptions& options) {
  return spatial_parts(graph, fuse(graph, options), options).inputs;
}

}  // namespace keelson
