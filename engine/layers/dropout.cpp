#include "engine/ops/dropout.hpp"
#include "engine/base/philox.hpp"
#include "engine/layers/layers.hpp"
#include "engine/onnx/builder.hpp"
#include "engine/plan/node_builder.hpp"

namespace keelson {

namespace {

class DropoutLayer : public Layer {
 public:
  explicit DropoutLayer(float rate, const ops::Part& part = {}) : rate_(rate), part_(part) {}

  std::string kind() const override { return "dropout"; }
  bool keeps_type() const override { return true; }
  ValueShape infer(std::span<const ValueShape> srcs) const override { return srcs[0]; }
  std::vector<ChannelTie> channel_ties(std::span<const ValueShape> srcs) const override { return same_channels(srcs); }

  std::optional<LayerPart> part(std::span<const ValueShape> srcs, int dim, const Rows& rows) const override {
    if (rate_ == 0) return LayerPart{rows, nullptr};
    if (dim != 2) return {};  // a part is some rows of a larger value
    return LayerPart{rows, std::make_shared<DropoutLayer>(rate_, ops::Part{srcs[0].shape[dim], rows.begin})};
  }

  BackwardFn plan(ForwardBuilder& p) const override {
    if (!p.training() || rate_ == 0) {
      p.set_dst(p.src_buffer(0));
      return [](BackwardBuilder& b) { b.set_diff_src(0, b.diff_dst()); };
    }
    const TensorDesc d{p.src(0).shape, p.type(), p.strided_src(0)};
    const std::int64_t rows = p.src_value(0).rows_per_sample();
    const ops::DropoutDesc desc{{rate_, philox::stream_of(p.node().name)}, d, rows, {}, part_};
    std::shared_ptr<ops::Dropout> dropout = p.make(desc);
    const BufferId src = p.src_in(0, d.layout), dst = p.new_dst(d.layout, d.dtype);
    p.forward(dropout, {.step_params = p.step_params(), .src = src, .dst = dst});
    return [dropout, desc](BackwardBuilder& b) {
      const TensorDesc& d = desc.src;
      const BufferId diff_dst = b.in_order(b.diff_dst(), d.layout, d.dtype);
      std::shared_ptr<ops::Dropout> backward = dropout;
      if (ops::DropoutDesc own = desc; !(b.desc(diff_dst).layout == d.layout)) {
        own.diff_layout = b.desc(diff_dst).layout;
        backward = b.make(own);
      }
      const BufferId diff_src = b.new_diff_src(0, d.layout, d.dtype);
      b.backward_data(backward, {.step_params = b.step_params(), .diff_dst = diff_dst, .diff_src = diff_src});
    };
  }

  void to_onnx(OnnxBuilder& b) const override { b.set_dst(b.src(0)); }

 private:
  float rate_;
  ops::Part part_;
};

}  // namespace

Var dropout(Var x, float rate, const std::string& name) {
  if (!(rate >= 0 && rate < 1)) refuse("a dropout rate of {}: expected 0 <= rate < 1", rate);
  return x.graph->add(std::make_shared<DropoutLayer>(rate), {x}, name);
}

}  // namespace keelson
