#include "engine/graph/node_plan.hpp"
#include "engine/layers/layers.hpp"

namespace keelson {

namespace {

using ops::Role;
using ops::Verb;

class PoolLayer : public Layer {
 public:
  PoolLayer(ops::PoolKind kind, PoolOptions options) : kind_(kind), options_(options) {}

  std::string kind() const override { return kind_ == ops::PoolKind::max ? "max_pool" : "average_pool"; }

  ValueShape infer(std::span<const ValueShape> srcs) const override {
    const ValueShape& x = srcs[0];
    if (x.shape.rank() < 3) refuse("pooling takes (N, C, spatial...) values, but its input is {}", to_string(x.shape));
    return {ops::pool_dst_shape(x.shape, params(x.shape)), x.dtype, x.batch_axis};
  }

  BackwardFn plan(NodePlan& p) const override {
    const auto describe = [&](const TensorDesc& src) {
      return ops::PoolDesc{params(src.shape), src, p.dst_request(), p.training()};
    };
    std::shared_ptr<ops::Pool> pool = p.try_make(describe(p.src(0)));
    if (!pool) pool = p.make(describe(p.src(0).with(p.strided_src(0))));
    const BufferId src = p.src_in(0, pool->layout(Verb::forward, Role::src));
    const BufferId workspace = p.workspace(*pool);
    const BufferId dst = p.new_dst(pool->layout(Verb::forward, Role::dst));
    p.call(pool, Verb::forward, {in(src), out(dst), out(workspace)},
           [](ops::Pool& o, const Tensor* t) { o.forward(t[0], t[1], t[2]); });
    return [pool, workspace](BackwardPlan& b) {
      const BufferId diff_dst = b.diff_dst_in(pool->layout(Verb::backward_data, Role::diff_dst));
      const BufferId diff_src = b.new_diff_src(0, pool->layout(Verb::backward_data, Role::diff_src));
      b.call(pool, Verb::backward_data,
             {in(diff_dst), in(workspace), out(diff_src), out(b.scratch(*pool, Verb::backward_data))},
             [](ops::Pool& o, const Tensor* t) { o.backward(t[0], t[1], t[2], t[3]); });
    };
  }

 private:
  ops::PoolParams params(const Shape& src) const {
    const int spatial = src.rank() - 2;
    ops::PoolParams p;
    p.kind = kind_;
    p.kernel = Shape::filled(spatial, options_.size);
    p.stride = Shape::filled(spatial, options_.stride > 0 ? options_.stride : options_.size);
    p.pad_begin = p.pad_end = Shape::filled(spatial, options_.padding);
    p.count_padding = options_.count_padding;
    return p;
  }

  ops::PoolKind kind_;
  PoolOptions options_;
};

}  // namespace

Var max_pool(Var x, const PoolOptions& options, const std::string& name) {
  return x.graph->add(std::make_shared<PoolLayer>(ops::PoolKind::max, options), {x}, name);
}

Var average_pool(Var x, const PoolOptions& options, const std::string& name) {
  return x.graph->add(std::make_shared<PoolLayer>(ops::PoolKind::average, options), {x}, name);
}

}  // namespace keelson
