#include "engine/graph/node_builder.hpp"
#include "engine/layers/layers.hpp"

namespace keelson {

namespace {

/// Reads the elements of each sample in one order and gives them other dims: a view once src lies in that order.
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

  BackwardFn plan(ForwardBuilder& p) const override {
    const Shape src_shape = p.src(0).shape;
    const Layout read = order_ == ElementOrder::logical ? Layout::plain(src_shape) : Layout::channels_last(src_shape);
    // Of whatever dtype value and gradient are: words, too, may be regrouped.
    const TensorDesc from = p.src(0).with(read), to = p.dst_request().with(Layout::plain(p.dst_shape()));
    const BufferId src = p.src_in(0, read);
    p.set_dst(p.view(src, {to.shape, p.desc(src).dtype, to.layout}));
    return [from, to](BackwardBuilder& b) {
      const BufferId diff = b.in_layout(b.diff_dst(), to.layout);
      b.set_diff_src(0, b.view(diff, {from.shape, b.desc(diff).dtype, from.layout}));
    };
  }

 private:
  std::string kind_;
  ElementOrder order_;
  Shape sample_;  ///< with the rows in front; 0 in flatten: whatever fits
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
