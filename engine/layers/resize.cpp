#include "engine/ops/resize.hpp"

#include "engine/layers/layers.hpp"
#include "engine/onnx/builder.hpp"
#include "engine/plan/node_builder.hpp"

namespace keelson {

namespace {

class ResizeLayer : public Layer {
 public:
  explicit ResizeLayer(const ResizeOptions& options, const ops::Part& src_part = {}, const ops::Part& dst_part = {})
      : options_(options), src_part_(src_part), dst_part_(dst_part) {}

  std::string kind() const override { return "resize"; }
  bool keeps_type() const override { return true; }
  std::vector<ChannelTie> channel_ties(std::span<const ValueShape> srcs) const override { return same_channels(srcs); }

  ValueShape infer(std::span<const ValueShape> srcs) const override {
    const ValueShape& x = srcs[0];
    if (x.shape.rank() != 4 || x.batch_axis != 0)
      refuse("resizing takes (N, C, rows, columns) values, but its input is {}", to_string(x.shape));
    if (options_.rows < 1 || options_.columns < 1)
      refuse("resizing to {} x {}: expected at least 1 x 1", options_.rows, options_.columns);
    return {{x.shape[0], x.shape[1], options_.rows, options_.columns}, x.dtype};
  }

  std::optional<LayerPart> part(std::span<const ValueShape> srcs, int dim, const Rows& rows) const override {
    if (dim != 2) return {};  // a part is some rows of a larger value
    const std::int64_t in = srcs[0].shape[dim], out = options_.rows;
    const Rows reads = ops::resized_rows(in, out, options_.grid, rows);
    ResizeOptions part = options_;
    part.rows = rows.size();
    return LayerPart{reads,
                     std::make_shared<ResizeLayer>(part, ops::Part{in, reads.begin}, ops::Part{out, rows.begin})};
  }

  BackwardFn plan(ForwardBuilder& p) const override {
    const Shape& shape = p.src(0).shape;
    const bool last = p.strided_src(0).is_channels_last(shape);
    const ops::ResizeDesc d{{shape, p.type(), last ? Layout::channels_last(shape) : Layout::plain(shape)},
                            options_.rows,
                            options_.columns,
                            options_.grid,
                            src_part_,
                            dst_part_};
    std::shared_ptr<ops::Resize> op = p.make(d);
    const TensorDesc dst = d.dst_desc();
    p.forward(op, {.src = p.src_in(0, d.src.layout), .dst = p.new_dst(dst.layout, dst.dtype)});
    return [op, src = d.src, dst](BackwardBuilder& b) {
      if (!b.wants_diff_src(0)) return;
      b.backward_data(
          op, {.diff_dst = b.diff_dst_in(dst.layout, dst.dtype), .diff_src = b.new_diff_src(0, src.layout, src.dtype)});
    };
  }

  void to_onnx(OnnxBuilder& b) const override {
    const std::string& x = b.src(0);
    const auto samples = b.op("Shape", {x}, {{"start", std::int64_t{0}}, {"end", std::int64_t{1}}});
    const auto others = b.integers({b.src_shape(0)[1], options_.rows, options_.columns});
    const auto sizes = b.op("Concat", {samples, others}, {{"axis", std::int64_t{0}}});
    const std::string grid = options_.grid == ops::ResizeGrid::asymmetric   ? "asymmetric"
                             : options_.grid == ops::ResizeGrid::half_pixel ? "half_pixel"
                                                                            : "align_corners";
    b.set_dst(b.op("Resize", {x, "", "", sizes},
                   {{"mode", std::string("linear")}, {"coordinate_transformation_mode", grid}}));
  }

 private:
  ResizeOptions options_;
  ops::Part src_part_, dst_part_;
};

}  // namespace

Var resize(Var x, const ResizeOptions& options, const std::string& name) {
  return x.graph->add(std::make_shared<ResizeLayer>(options), {x}, name);
}

}  // namespace keelson
