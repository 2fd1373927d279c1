#include "tests/ops/op_test.hpp"

namespace keelson::testing {

std::string to_string(LayoutChoice c) {
  switch (c) {
    case LayoutChoice::plain:
      return "plain";
    case LayoutChoice::channels_last:
      return "channels-last";
    case LayoutChoice::any:
      return "any";
    case LayoutChoice::reader:
      return "plain source, any";
    case LayoutChoice::producer:
      return "a convolution's choice";
  }
  return "?";
}

std::optional<Layout> producer_layout(Context& context, const Shape& shape) {
  const int spatial = shape.rank() - 2;
  if (spatial < 1) return {};
  ops::ConvDesc d;
  d.params.kernel = Shape::filled(spatial, 3);
  d.params.stride = d.params.dilation = d.params.pad_begin = d.params.pad_end = Shape::filled(spatial, 1);
  d.params.bias = false;
  d.dst = d.weights = {shape, DType::f32, Layout::any()};
  // One plain channel in, as from a reader: oneDNN blocks what comes out, where it would leave a wider source
  // channels-last.
  d.src = TensorDesc::plain(shape);
  d.src.shape[1] = 1;
  d.src.layout = Layout::plain(d.src.shape);
  d.diff_src = false;
  d.weights.shape[0] = shape[1];
  d.weights.shape[1] = 1;
  for (int i = 0; i < spatial; ++i) d.weights.shape[i + 2] = 3;
  const auto conv = context.try_make(d);
  if (!conv) return {};
  Layout chosen = conv->layout(ops::Verb::forward, ops::Role::dst);
  if (!chosen.is_opaque()) return {};
  return chosen;
}

std::optional<Layout> layout_of(Context& context, LayoutChoice c, const Shape& shape) {
  if (c == LayoutChoice::plain) return Layout::plain(shape);
  if (c == LayoutChoice::producer) return producer_layout(context, shape);
  if (c == LayoutChoice::channels_last && !Layout::channels_last(shape).is_plain(shape))
    return Layout::channels_last(shape);
  return {};
}

}  // namespace keelson::testing
