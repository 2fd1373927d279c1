#include "engine/ops/combine.hpp"

#include <algorithm>

#include "engine/layers/layers.hpp"
#include "engine/onnx/builder.hpp"
#include "engine/plan/node_builder.hpp"

namespace keelson {

namespace {

std::vector<std::string> all_srcs(const OnnxBuilder& b) {
  std::vector<std::string> srcs;
  for (int i = 0; i < std::ssize(b.node().srcs); ++i) srcs.push_back(b.src(i));
  return srcs;
}

/// Joins values of the same shape element by element.
class ElementsLayer : public Layer {
 public:
  bool keeps_type() const override { return true; }
  std::vector<ChannelTie> channel_ties(std::span<const ValueShape> srcs) const override { return same_channels(srcs); }
  std::optional<LayerPart> part(std::span<const ValueShape>, int, const Rows& rows) const override {
    return LayerPart{rows, nullptr};
  }

  ValueShape infer(std::span<const ValueShape> srcs) const override {
    for (const auto& s : srcs)
      if (!(s.shape == srcs[0].shape))
        refuse("values of different shapes cannot be {}: {} and {}", joined(), to_string(srcs[0].shape),
               to_string(s.shape));
    return srcs[0];
  }

  BackwardFn plan(ForwardBuilder& p) const override {
    const auto count = static_cast<int>(p.node().srcs.size());
    TensorDesc d = p.src(0);
    d.dtype = p.type();
    if (auto backward = try_plan(p, d, count)) return *backward;
    d = d.with(p.strided_src(0));
    return try_plan(p, d, count).value();
  }

 protected:
  /// What is done to values, for messages: "added".
  virtual const char* joined() const = 0;
  /// plan() for sources and a result of this description. No value if no backend takes an opaque layout; throws for a
  /// strided one.
  virtual std::optional<BackwardFn> try_plan(ForwardBuilder& p, const TensorDesc& d, int count) const = 0;

  template <class Desc>
  static std::shared_ptr<typename Desc::Op> try_make(ForwardBuilder& p, const Desc& desc) {
    return desc.dst.layout.is_strided() ? p.make(desc) : p.try_make(desc);
  }

  static std::vector<BufferId> srcs_in(ForwardBuilder& p, const Layout& layout, int count) {
    std::vector<BufferId> srcs;
    for (int i = 0; i < count; ++i) srcs.push_back(p.src_in(i, layout));
    return srcs;
  }
};

class AddLayer : public ElementsLayer {
 public:
  std::string kind() const override { return "add"; }

  void to_onnx(OnnxBuilder& b) const override {
    const auto srcs = all_srcs(b);
    b.set_dst(b.op(srcs.size() == 2 ? "Add" : "Sum", srcs));
  }

 protected:
  const char* joined() const override { return "added"; }

  std::optional<BackwardFn> try_plan(ForwardBuilder& p, const TensorDesc& d, int count) const override {
    std::shared_ptr<ops::Sum> sum = try_make(p, ops::SumDesc::alike(d, count));
    if (!sum) return {};
    p.forward(sum, {.srcs = srcs_in(p, d.layout, count), .dst = p.new_dst(d.layout, d.dtype)});
    return [count](BackwardBuilder& b) {
      for (int i = 0; i < count; ++i)
        if (b.wants_diff_src(i)) b.set_diff_src(i, b.diff_dst());
    };
  }
};

class MultiplyLayer : public ElementsLayer {
 public:
  std::string kind() const override { return "multiply"; }

  void to_onnx(OnnxBuilder& b) const override {
    const auto srcs = all_srcs(b);
    std::string product = srcs[0];
    for (std::size_t i = 1; i < srcs.size(); ++i) product = b.op("Mul", {product, srcs[i]});
    b.set_dst(product);
  }

 protected:
  const char* joined() const override { return "multiplied"; }

  std::optional<BackwardFn> try_plan(ForwardBuilder& p, const TensorDesc& d, int count) const override {
    std::shared_ptr<ops::Product> product = try_make(p, ops::ProductDesc{count, d});
    if (!product) return {};
    const auto srcs = srcs_in(p, d.layout, count);
    p.forward(product, {.srcs = srcs, .dst = p.new_dst(d.layout, d.dtype)});
    // Each gradient is the product of diff_dst and the other factors, so factors of 0 need no special case.
    return [product, srcs, d](BackwardBuilder& b) {
      const BufferId diff_dst = b.diff_dst_in(d.layout, d.dtype);
      for (std::size_t i = 0; i < srcs.size(); ++i) {
        const int src = static_cast<int>(i);
        if (!b.wants_diff_src(src)) continue;
        auto factors = srcs;
        factors[i] = diff_dst;
        b.forward(product, {.srcs = factors, .dst = b.new_diff_src(src, d.layout, d.dtype)});
      }
    };
  }
};

class ConcatLayer : public Layer {
 public:
  explicit ConcatLayer(int axis) : axis_(axis) {}

  std::string kind() const override { return "concat"; }
  bool keeps_type() const override { return true; }

  ValueShape infer(std::span<const ValueShape> srcs) const override {
    if (axis_ < 1) refuse("concat along axis {}: expected 1 (channels) or more, since axis 0 is the batch", axis_);
    std::vector<Shape> shapes;
    for (const auto& s : srcs) shapes.push_back(s.shape);
    return {ops::concat_dst_shape(shapes, axis_), srcs[0].dtype, srcs[0].batch_axis};
  }

  std::vector<ChannelTie> channel_ties(std::span<const ValueShape> srcs) const override {
    if (axis_ != 1) return same_channels(srcs);
    std::vector<ChannelTie> ties;
    std::int64_t before = 0;
    for (int i = 0; i < std::ssize(srcs); ++i) {
      ChannelTie& tie = ties.emplace_back(srcs[i].shape[1]);
      tie.places = {TiedPlace::of_src(i), TiedPlace::of_dst()};
      tie.places[1].offset = before;
      before += tie.channels;
    }
    return ties;
  }

  std::optional<LayerPart> part(std::span<const ValueShape>, int dim, const Rows& rows) const override {
    if (dim == axis_) return {};
    return LayerPart{rows, nullptr};
  }

  /// The gradient of each source is a slice of the result's gradient.
  static void pass_slices_on(BackwardBuilder& b, const ops::ConcatDesc& d) {
    const BufferId diff_dst = b.in_order(b.diff_dst(), d.dst.layout, d.dst.dtype);
    const Shape strides = b.desc(diff_dst).layout.strides();
    std::int64_t at = 0;
    for (int i = 0; i < static_cast<int>(d.srcs.size()); ++i) {
      const Shape& shape = d.srcs[i].shape;
      const auto offset = static_cast<std::size_t>(at * strides[d.axis]) * size_of(d.dst.dtype);
      if (b.wants_diff_src(i))
        b.set_diff_src(i, b.view(diff_dst, {shape, d.dst.dtype, Layout::strided(shape, strides)}, offset));
      at += shape[d.axis];
    }
  }

  /// The node that appends channels to the result of node n, if all other readers take the result with gaps; else -1.
  static int next_of_chain(const ForwardBuilder& p, int n) {
    int next = -1;
    for (const int reader : p.readers(n)) {
      const Graph::Node& node = p.node_of(reader);
      const auto* const concat = dynamic_cast<const ConcatLayer*>(node.layer.get());
      const bool appends = concat && concat->axis_ == 1 && node.srcs[0] == n && next < 0 &&
                           std::count(node.srcs.begin(), node.srcs.end(), n) == 1;
      if (appends)
        next = reader;
      else if (!node.layer || !node.layer->reads_gaps())
        return -1;
    }
    return p.wants_f32_of(n) || (next >= 0 && p.wants_f32_of(next)) ? -1 : next;
  }

  /// The buffer of the last of the concatenations that each append channels to the one before, if this is the first:
  /// their results are its beginnings, so that no channel is copied twice (Pleiss et al. 2017, arXiv 1707.06990).
  /// no_buffer if nothing is appended to this result.
  BufferId begin_chain(ForwardBuilder& p, const ops::ConcatDesc& d) const {
    if (axis_ != 1 || !p.places_results() || !d.dst.layout.is_channels_last(d.dst.shape)) return no_buffer;
    std::vector<int> chain;
    for (int n = next_of_chain(p, p.number()); n >= 0; n = next_of_chain(p, n)) chain.push_back(n);
    if (chain.empty()) return no_buffer;
    const Shape shape = p.node_of(chain.back()).shape.at_batch(p.batch());
    const BufferId whole = p.new_buffer("chain", {shape, d.dst.dtype, Layout::channels_last(shape)});
    for (const int n : chain) p.place_result(n, whole);
    return whole;
  }

  /// The first channels of `whole` become the result. Sources that do not lie there are copied.
  static void plan_inside(ForwardBuilder& p, const ops::ConcatDesc& d, BufferId whole) {
    const Shape strides = p.desc(whole).layout.strides();
    const auto channels_from = [&](std::int64_t first, const Shape& shape) {
      return p.view(whole, {shape, d.dst.dtype, Layout::strided(shape, strides)},
                    static_cast<std::size_t>(first) * size_of(d.dst.dtype));
    };
    std::int64_t at = 0;
    for (int i = 0; i < static_cast<int>(d.srcs.size()); ++i) {
      const Shape& shape = d.srcs[static_cast<std::size_t>(i)].shape;
      if (!p.shares_memory(p.src_buffer(i), whole)) {
        const BufferId src = p.src_in(i, d.srcs[static_cast<std::size_t>(i)].layout), dst = channels_from(at, shape);
        p.forward(p.make(ops::ReorderDesc{p.desc(src), p.desc(dst)}), {.src = src, .dst = dst});
      }
      at += shape[1];
    }
    p.set_dst(at == p.desc(whole).shape[1] ? whole : channels_from(0, d.dst.shape));
  }

  BackwardFn plan(ForwardBuilder& p) const override {
    const auto count = static_cast<int>(p.node().srcs.size());
    // All values get the same order, so that copies read and write memory in sequence.
    const auto like = [last = p.place() != no_buffer || p.strided_src(0).is_channels_last(p.src(0).shape)](
                          const Shape& s) { return last ? Layout::channels_last(s) : Layout::plain(s); };
    ops::ConcatDesc d{{}, axis_, p.dst_request(p.type()).with(like(p.dst_shape()))};
    for (int i = 0; i < count; ++i) d.srcs.push_back({p.src(i).shape, p.type(), like(p.src(i).shape)});
    const BufferId whole = p.place() != no_buffer ? p.place() : begin_chain(p, d);
    if (whole != no_buffer) {
      plan_inside(p, d, whole);
      return [d](BackwardBuilder& b) { pass_slices_on(b, d); };
    }
    std::vector<BufferId> srcs;
    for (int i = 0; i < count; ++i) srcs.push_back(p.src_in(i, d.srcs[i].layout));
    std::shared_ptr<ops::Concat> concat = p.make(d);
    p.forward(concat, {.srcs = srcs, .dst = p.new_dst(d.dst.layout, d.dst.dtype)});
    return [d](BackwardBuilder& b) { pass_slices_on(b, d); };
  }

  void to_onnx(OnnxBuilder& b) const override {
    b.set_dst(b.op("Concat", all_srcs(b), {{"axis", std::int64_t{axis_}}}));
  }

 private:
  int axis_;
};

class SoftmaxLayer : public Layer {
 public:
  explicit SoftmaxLayer(int axis) : axis_(axis) {}

  std::string kind() const override { return "softmax"; }
  /// A sum over the channels has all of them.
  std::vector<ChannelTie> channel_ties(std::span<const ValueShape> srcs) const override {
    return axis_ == 1 ? std::vector<ChannelTie>() : same_channels(srcs);
  }
  std::optional<LayerPart> part(std::span<const ValueShape>, int dim, const Rows& rows) const override {
    if (dim == axis_) return {};
    return LayerPart{rows, nullptr};
  }

  ValueShape infer(std::span<const ValueShape> srcs) const override {
    if (axis_ < 1 || axis_ >= srcs[0].shape.rank())
      refuse("softmax along axis {} of {}: expected 1 to {}", axis_, to_string(srcs[0].shape),
             srcs[0].shape.rank() - 1);
    return srcs[0];
  }

  BackwardFn plan(ForwardBuilder& p) const override {
    const TensorDesc d{p.src(0).shape, DType::f32, p.strided_src(0)};
    std::shared_ptr<ops::Softmax> softmax = p.make(ops::SoftmaxDesc{d, axis_});
    const BufferId src = p.converted(p.src_buffer(0), d.layout, d.dtype), dst = p.new_dst(d.layout);
    p.forward(softmax, {.src = src, .dst = dst});
    return [softmax, dst, d](BackwardBuilder& b) {
      const BufferId diff_dst = b.diff_dst_in(d.layout), diff_src = b.new_diff_src(0, d.layout);
      b.backward_data(softmax, {.diff_dst = diff_dst, .dst = dst, .diff_src = diff_src});
    };
  }

  void to_onnx(OnnxBuilder& b) const override {
    b.set_dst(b.op("Softmax", {b.src(0)}, {{"axis", std::int64_t{axis_}}}));
  }

 private:
  int axis_;
};

}  // namespace

Var add(const std::vector<Var>& xs, const std::string& name) {
  if (xs.size() < 2) refuse("add takes two values or more, not {}", xs.size());
  return xs[0].graph->add(std::make_shared<AddLayer>(), xs, name);
}

Var multiply(const std::vector<Var>& xs, const std::string& name) {
  if (xs.size() < 2) refuse("multiply takes two values or more, not {}", xs.size());
  return xs[0].graph->add(std::make_shared<MultiplyLayer>(), xs, name);
}

Var concat(const std::vector<Var>& xs, int axis, const std::string& name) {
  if (xs.size() < 2) refuse("concat takes two values or more, not {}", xs.size());
  return xs[0].graph->add(std::make_shared<ConcatLayer>(axis), xs, name);
}

Var softmax(Var x, int axis, const std::string& name) {
  return x.graph->add(std::make_shared<SoftmaxLayer>(axis), {x}, name);
}

}  // namespace keelson
