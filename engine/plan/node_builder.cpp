#include "engine/plan/node_builder.hpp"

#include <algorithm>

#include "engine/plan/collectives.hpp"

#include "engine/ops/combine.hpp"

namespace keelson {

namespace {

std::string qualified(const CompileState& b, int node, const std::string& name) {
  return b.nodes[node].name + "/" + name;
}

}  // namespace

int CompileState::ranks(ProcessGrid::Axes axes, int group) const {
  if (!grid) return 1;
  const int all = grid->extent(axes);
  if (group == 0) return all;
  const int along_last = grid->extent(axes.last());
  return all / along_last * std::min(group, along_last);
}

BufferId NodeBuilder::new_buffer(const std::string& name, const TensorDesc& desc, const Distribution& distribution) {
  const BufferId b = build_.program.add(qualified(build_, node_, name), desc);
  build_.program.buffer(b).distribution = distribution;
  return b;
}

Call NodeBuilder::prepare(const CommunicationDesc& desc) const { return start_of(build_, label(""), desc); }

Call NodeBuilder::start(const CommunicationDesc& desc) {
  Call call = prepare(desc);
  append(call);
  return end_of(std::move(call));
}

ProcessGrid::Axes NodeBuilder::sum_axes() const {
  const bool own_channels = build_.sharing[static_cast<std::size_t>(node_)] == Sharing::channels;
  return own_channels ? Distribution::of_own_channels(build_.channel_axis) : Distribution::batch;
}

BufferId NodeBuilder::new_bytes(const std::string& name, std::size_t bytes) {
  if (bytes == 0) return no_buffer;
  return new_buffer(name, TensorDesc::plain({static_cast<std::int64_t>(bytes)}, DType::u8));
}

BufferId NodeBuilder::converted(BufferId b, const Layout& layout, DType type) {
  const TensorDesc src = desc(b);
  const bool fits = src.dtype == type && (layout.is_any() || src.layout == layout);
  if (fits && (build_.program.is_usable(b) || (!layout.is_any() && has_gaps(b)))) return b;
  // A parameter changes after every step and a gradient is made once: only forward values are worth remembering.
  for (BufferId known : build_.reordered[b])
    if (desc(known).layout == layout && desc(known).dtype == type) return known;
  const std::string name = build_.program.buffer(b).name;
  const TensorDesc dst{src.shape, type, layout.is_any() ? src.layout.without_gaps(src.shape) : layout};
  const BufferId result = build_.program.add(name, dst);
  auto reorder = make(ops::ReorderDesc{src, dst});
  const bool converts = src.dtype != type && src.layout == dst.layout;
  forward(reorder, {.src = b, .dst = result}, converts ? "convert" : "reorder");
  build_.reordered[b].push_back(result);
  return result;
}

BufferId NodeBuilder::in_order(BufferId b, const Layout& layout, DType type) {
  const TensorDesc& d = desc(b);
  return d.dtype == type && d.layout.without_gaps(d.shape) == layout ? b : converted(b, layout, type);
}

bool NodeBuilder::is_observed() const {
  if (!build_.training || !build_.observer) return false;
  const Parameter& weights = build_.parameters.at(node().parameter("weights"));
  return weights.product_inputs > 0 && build_.observer->observes(weights.shape, weights.product_inputs);
}

TensorDesc ForwardBuilder::src_request(int i, DType type) const {
  const bool as_given = build_.nodes[node().srcs[i]].is_input() && src(i).dtype == type;
  return {src(i).shape, type, as_given ? src(i).layout : Layout::any()};
}

Layout ForwardBuilder::strided_src(int i) const {
  const TensorDesc& d = src(i);
  return d.layout.is_strided() ? d.layout : Layout::channels_last(d.shape);
}

namespace {

BufferId parameter_buffer(CompileState& build, const Parameter& p) {
  auto [entry, fresh] = build.parameter_buffers.try_emplace(p.name, no_buffer);
  if (fresh) {
    entry->second = build.program.add(p.name, p.value.desc(), Storage::parameter);
    build.program.buffer(entry->second).parameter = p.name;
  }
  return entry->second;
}

}  // namespace

BufferId moment_buffer(CompileState& build, const std::string& parameter, const TensorDesc& desc,
                       const std::string& name, std::size_t number) {
  auto [entry, fresh] = build.moment_buffers.try_emplace({parameter, number}, no_buffer);
  if (!fresh) return entry->second;
  entry->second = build.program.add(parameter + "/" + name, desc, Storage::moment);
  Buffer& buffer = build.program.buffer(entry->second);
  buffer.parameter = parameter;
  buffer.moment = number;
  return entry->second;
}

BufferId ForwardBuilder::read_parameter(const Parameter& p) {
  const BufferId value = parameter_buffer(build_, p);
  if (build_.ahead.empty() || p.kind != ParameterKind::trained) return value;
  auto [entry, fresh] = build_.read_parameters.try_emplace(p.name, no_buffer);
  if (!fresh) return entry->second;
  const BufferId ahead = moment_buffer(build_, p.name, p.value.desc(), build_.ahead, 0);
  entry->second = build_.program.add(p.name + "/point", p.value.desc());
  forward(make(ops::SumDesc::alike(p.value.desc(), 2)), {.srcs = {value, ahead}, .dst = entry->second},
          "point of " + p.name);
  return entry->second;
}

BufferId ForwardBuilder::parameter_in(const std::string& name, const Layout& layout, DType type) {
  Parameter& p = parameter(name);
  // A copy in another dtype is made element by element, in the same layout. Backends' own layouts depend on the dtype.
  const bool own = layout.is_strided() || (layout.is_opaque() && type == DType::f32);
  if (!p.value) build_.parameters.materialise(p, own ? layout : Layout::plain(p.held_shape()));
  return converted(read_parameter(p), layout, type);
}

std::vector<int> ForwardBuilder::readers(int n) const {
  std::vector<int> found;
  for (int i = 0; i < std::ssize(build_.nodes); ++i) {
    const auto& srcs = build_.nodes[static_cast<std::size_t>(i)].srcs;
    if (std::find(srcs.begin(), srcs.end(), n) != srcs.end()) found.push_back(i);
  }
  return found;
}

BufferId ForwardBuilder::next_state(int i) {
  const int state = node().srcs[i];
  KEELSON_EXPECT(build_.nodes[state].is_state);
  const BufferId b = new_owned("next_state", src(i));
  if (!build_.next_states.emplace(state, b).second)
    refuse("two recurrent layers replace the state '{}': give each its own", build_.nodes[state].name);
  return b;
}

BufferId ForwardBuilder::new_dst(const Layout& layout, DType type) {
  const BufferId b = new_buffer("dst", dst_request(type).with(layout));
  set_dst(b);
  return b;
}

BackwardBuilder::BackwardBuilder(CompileState& build, int node) : NodeBuilder(build, Phase::backward, node) {
  std::vector<BufferId> terms = build.diffs[node];
  if (terms.empty()) return;  // the loss, where gradients begin
  if (terms.size() == 1) {
    diff_dst_ = terms[0];
    return;
  }
  // The sum may take the place of its first term, but not of a slice.
  std::stable_partition(terms.begin(), terms.end(), [&](BufferId b) { return !build.program.is_part(b); });
  TensorDesc d = desc(terms[0]);
  d.layout = d.layout.without_gaps(d.shape);
  ops::SumDesc sum{{}, d};
  for (BufferId& term : terms) {
    term = in_order(term, d.layout, d.dtype);
    sum.srcs.push_back(desc(term));
  }
  diff_dst_ = new_buffer("diff_dst", d);
  forward(make(sum), {.srcs = terms, .dst = diff_dst_}, "sum of gradients");
}

bool BackwardBuilder::owns_diff_dst() const {
  const Program& program = build_.program;
  if (program.root(diff_dst_) != diff_dst_ || program.buffer(diff_dst_).storage != Storage::arena) return false;
  int readers = 0;
  for (const auto& terms : build_.diffs)
    for (const BufferId term : terms) readers += program.root(term) == diff_dst_ ? 1 : 0;
  return readers <= 1;
}

BufferId BackwardBuilder::new_diff_src(int i, const Layout& layout, DType type) {
  const Graph::Node& src = build_.nodes[node().srcs[i]];
  const BufferId b = new_buffer(fmt::format("diff_src{}", i), {src.shape.at_batch(batch()), type, layout});
  set_diff_src(i, b);
  return b;
}

BufferId BackwardBuilder::parameter_in(const std::string& name, const Layout& layout, DType type) {
  const auto read = build_.read_parameters.find(node().parameter(name));
  const BufferId value =
      read != build_.read_parameters.end() ? read->second : build_.parameter_buffers.at(node().parameter(name));
  return converted(value, layout, type);
}

void BackwardBuilder::observe(const ops::ConvParams& window, BufferId src, const std::function<BufferId()>& diff_dst) {
  if (!is_observed()) return;
  std::vector<Call>& calls = build_.program.calls();
  const std::size_t first = calls.size();
  const auto always_there = build_.reordered;  // calls of all steps must not read the copies of some
  const auto strided = [this](BufferId b) {
    const TensorDesc& d = desc(b);
    return in_layout(b, d.layout.is_strided() ? d.layout.without_gaps(d.shape) : Layout::channels_last(d.shape));
  };
  const Parameter& weights = build_.parameters.at(node().parameter("weights"));
  const bool has_bias = weights.product_inputs > weights.shape.elements() / weights.shape[0];
  LayerProduct product{weights.name, has_bias ? node().parameter("bias") : "", window};
  product.src = strided(src);
  product.diff_dst = strided(diff_dst());
  auto values = build_.observer->append_observation(*this, product);
  build_.observations.push_back({std::move(product), std::move(values)});
  build_.reordered = always_there;
  for (std::size_t i = first; i < calls.size(); ++i) calls[i].every = {build_.observer->observation_period(), 0};
}

BufferId BackwardBuilder::gradient_so_far(const std::string& parameter) const {
  for (const auto& [name, buffer] : build_.gradients)
    if (name == node().parameter(parameter)) return buffer;
  return no_buffer;
}

BufferId BackwardBuilder::new_gradient(const std::string& parameter, const Layout& layout) {
  const Parameter& p = build_.parameters.at(node().parameter(parameter));
  BufferId gradient = gradient_so_far(parameter);
  const bool add = gradient != no_buffer;
  if (!add) {
    gradient = new_buffer("diff_" + parameter, p.value.desc(), Distribution::partial(sum_axes()));
    build_.gradients.push_back({p.name, gradient});
  }
  const Layout wanted = layout.is_any() ? p.value.layout() : layout;
  if (!add && wanted == p.value.layout()) return gradient;
  const BufferId made = new_buffer("diff_" + parameter, p.value.desc().with(wanted), Distribution::partial(sum_axes()));
  unfinished_.push_back({made, gradient, add});
  return made;
}

void BackwardBuilder::finish_gradients() {
  for (const auto& [made, gradient, add] : unfinished_) {
    if (add) {
      const BufferId part = in_layout(made, desc(gradient).layout);
      forward(make(ops::SumDesc::alike(desc(gradient), 2)), {.srcs = {gradient, part}, .dst = gradient},
              "sum of gradients");
      continue;
    }
    auto reorder = make(ops::ReorderDesc{desc(made), desc(gradient)});
    forward(reorder, {.src = made, .dst = gradient}, "reorder");
  }
  unfinished_.clear();
}

bool BackwardBuilder::use_sparse(const std::string& parameter, std::int64_t count) const {
  const Parameter& p = build_.parameters.at(node().parameter(parameter));
  int users = 0;
  for (const Graph::Node& n : build_.nodes)
    for (const auto& [own, other] : n.shared) users += other == p.name ? 1 : 0;
  if (!build_.sparse_allowed || users > 0 || node().shared.contains(parameter) || p.shape.rank() < 2) return false;
  // Ring algorithms: an allgather moves (ranks - 1) parts to each rank, an allreduce 2 (ranks - 1) / ranks of the
  // whole.
  const std::int64_t width = p.held_shape()[1];
  return build_.ranks(sum_axes()) * count * (width + 1) < 2 * p.shape[0] * width;
}

SparseGradient BackwardBuilder::new_sparse_gradient(const std::string& parameter, std::int64_t count) {
  const Parameter& p = build_.parameters.at(node().parameter(parameter));
  const SparseGradient g{p.name, count, new_owned("diff_rows", TensorDesc::plain({count}, DType::s32)),
                         new_owned("diff_" + parameter, TensorDesc::plain({count, p.held_shape()[1]})), sum_axes()};
  build_.sparse_gradients.push_back(g);
  return g;
}

}  // namespace keelson
