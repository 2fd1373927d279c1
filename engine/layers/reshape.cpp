#include "engine/layers/layers.hpp"
#include "engine/onnx/builder.hpp"
#include "engine/plan/node_builder.hpp"

namespace keelson {

namespace {

/// Reads the elements of each sample in one order and gives them another shape. If src lies in that order, the result
/// is a view.
class ReshapeLayer : public Layer {
 public:
  ReshapeLayer(std::string kind, ElementOrder order, Shape sample)
      : kind_(std::move(kind)), order_(order), sample_(sample) {}

  std::string kind() const override { return kind_; }
  bool keeps_type() const override { return true; }

  ValueShape infer(std::span<const ValueShape> srcs) const override {
    const ValueShape& x = srcs[0];
    if (x.batch_axis != 0)
      refuse("a value that has no batch in front ({}) cannot be regrouped by sample", to_string(x.shape));
    Shape shape = sample_;
    if (shape.rank() == 2 && shape[1] == 0) shape = Shape{1, x.shape.elements()};
    if (shape.rank() == 2 && shape[0] == 0) shape[0] = x.shape.elements() / shape[1];
    if (shape.elements() != x.shape.elements())
      refuse("{} elements of a sample ({}) cannot be regrouped as {}", x.shape.elements(), to_string(x.shape),
             to_string(shape));
    return {shape, x.dtype, 0};
  }

  /// Handles values that keep their channels, and rows of features in which a channel has the same columns in each row.
  std::vector<ChannelTie> channel_ties(std::span<const ValueShape> srcs) const override {
    const Shape &from = srcs[0].shape, to = infer(srcs).shape;
    if (from.rank() < 2 || to.rank() < 2) return {};
    ChannelTie tie{from[1], {TiedPlace::of_src(), TiedPlace::of_dst()}};
    const bool one_row = from[0] == 1 && to[0] == 1;
    if (one_row && order_ == ElementOrder::logical && to.rank() > 2 && to[1] == from[1]) return {tie};
    const bool whole_pixels = order_ == ElementOrder::channels_last && from[0] == 1 && to[1] % from[1] == 0;
    if (to.rank() != 2 || !(one_row || whole_pixels)) return {};
    const std::int64_t pixels = to[1] / from[1];
    tie.places[1] = order_ == ElementOrder::logical ? TiedPlace::of_dst(1, pixels) : TiedPlace::of_dst(pixels, 1);
    return {tie};
  }

  std::shared_ptr<const Layer> with_channels(std::span<const ValueShape>, std::span<const ValueShape>,
                                             std::int64_t channels) const override {
    auto layer = std::make_shared<ReshapeLayer>(*this);
    if (sample_.rank() > 1 && sample_[1] != 0) layer->sample_[1] = channels;
    return layer;
  }

  BackwardFn plan(ForwardBuilder& p) const override {
    const Shape src_shape = p.src(0).shape;
    const Layout read = order_ == ElementOrder::logical ? Layout::plain(src_shape) : Layout::channels_last(src_shape);
    // Works with any dtype of value and gradient, also 16-bit ones.
    const TensorDesc from = p.src(0).with(read), to = p.dst_request().with(Layout::plain(p.dst_shape()));
    const BufferId src = p.src_in(0, read);
    p.set_dst(p.view(src, {to.shape, p.desc(src).dtype, to.layout}));
    return [from, to](BackwardBuilder& b) {
      const BufferId diff = b.in_layout(b.diff_dst(), to.layout);
      b.set_diff_src(0, b.view(diff, {from.shape, b.desc(diff).dtype, from.layout}));
    };
  }

  void to_onnx(OnnxBuilder& b) const override {
    std::string x = b.src(0);
    const int rank = b.src_shape(0).rank();
    if (order_ == ElementOrder::channels_last && rank > 2) {
      std::vector<std::int64_t> order{0};
      for (int i = 2; i < rank; ++i) order.push_back(i);
      order.push_back(1);
      x = b.op("Transpose", {x}, {{"perm", order}});
    }
    const Shape& dst = b.dst_shape();
    b.set_dst(b.op("Reshape", {x, b.rows_of(Shape(std::span(dst.begin() + 1, dst.end())))}));
  }

 private:
  std::string kind_;
  ElementOrder order_;
  Shape sample_;  ///< with the rows as first dimension; 0 (from flatten): computed
};

}  // namespace

Var flatten(Var x, ElementOrder order, std::int64_t features, const std::string& name) {
  return x.graph->add(std::make_shared<ReshapeLayer>("flatten", order, Shape{0, features}), {x}, name);
}

Var reshape(Var x, const Shape& sample, const std::string& name) {
  Shape shape{1};
  for (auto d : sample) shape.push_back(d);
  return x.graph->add(std::make_shared<ReshapeLayer>("reshape", ElementOrder::logical, shape), {x}, name);
}

}  // namespace keelson
