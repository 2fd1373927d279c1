#include "engine/layers/layers.hpp"
#include "engine/onnx/builder.hpp"
#include "engine/ops/combine.hpp"
#include "engine/plan/node_builder.hpp"

namespace keelson {

namespace {

/// The rows of the last steps, copied out of the rows of all steps. The gradient of the other steps is zero.
class LastStepLayer : public Layer {
 public:
  std::string kind() const override { return "last_step"; }
  bool keeps_type() const override { return true; }

  ValueShape infer(std::span<const ValueShape> srcs) const override {
    const ValueShape& x = srcs[0];
    if (x.shape.rank() != 2 || x.batch_axis != 0)
      refuse("the last step is taken of rows of features, one row per step, not of {}", to_string(x.shape));
    return {{1, x.shape[1]}, x.dtype, 0};
  }

  std::vector<ChannelTie> channel_ties(std::span<const ValueShape> srcs) const override { return same_channels(srcs); }

  BackwardFn plan(ForwardBuilder& p) const override {
    const std::int64_t steps = p.src_value(0).rows_per_sample(), features = p.dst_shape()[1], batch = p.batch();
    const BufferId src = p.src_in(0, Layout::plain(p.src(0).shape));
    const DType type = p.desc(src).dtype;
    const TensorDesc last = TensorDesc::plain({batch, features}, type);
    const TensorDesc part{last.shape, type, Layout::strided(last.shape, {steps * features, 1})};
    const auto offset = static_cast<std::size_t>((steps - 1) * features) * size_of(type);
    const BufferId rows = steps == 1 ? src : p.view(src, part, offset);
    p.set_dst(p.converted(rows, last.layout, type));
    return [=](BackwardBuilder& b) {
      if (steps == 1) return b.set_diff_src(0, b.diff_dst());
      // Zeros for the steps before the last, in memory that nobody writes.
      const BufferId diff_dst = b.in_order(b.diff_dst(), last.layout, type);
      const TensorDesc others = TensorDesc::plain({batch, (steps - 1) * features}, type),
                       all = TensorDesc::plain({batch, steps * features}, type);
      const BufferId zeros = b.new_owned("zeros", others);
      const ops::ConcatDesc d{{others, b.desc(diff_dst)}, 1, all};
      const BufferId diff_src = b.new_diff_src(0, Layout::plain({batch * steps, features}), type);
      b.forward(b.make(d), {.srcs = {zeros, diff_dst}, .dst = b.view(diff_src, all)});
    };
  }

  void to_onnx(OnnxBuilder& b) const override {
    const auto steps = b.src_node(0).shape.rows_per_sample(), features = b.dst_shape()[1];
    const auto samples = b.op("Reshape", {b.src(0), b.rows_of({steps, features})});
    const auto last = b.op("Gather", {samples, b.integers({steps - 1})}, {{"axis", std::int64_t{1}}});
    b.set_dst(b.op("Reshape", {last, b.rows_of({features})}));
  }
};

}  // namespace

Var last_step(Var x, const std::string& name) { return x.graph->add(std::make_shared<LastStepLayer>(), {x}, name); }

}  // namespace keelson
