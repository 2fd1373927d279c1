#include "engine/layers/pool.hpp"

#include "engine/onnx/builder.hpp"

namespace keelson {

ops::PoolParams pool_params(ops::PoolKind kind, const PoolOptions& options, const Shape& src) {
  const int spatial = src.rank() - 2;
  ops::PoolParams p;
  p.kind = kind;
  p.kernel = options.kernel.empty() ? Shape::filled(spatial, options.size) : options.kernel;
  p.stride = options.stride > 0 ? Shape::filled(spatial, options.stride) : p.kernel;
  p.pad_begin = options.pad_begin.empty() ? Shape::filled(spatial, options.padding) : options.pad_begin;
  p.pad_end = options.pad_end.empty() ? Shape::filled(spatial, options.padding) : options.pad_end;
  p.count_padding = options.count_padding;
  return p;
}

PoolPart part_of_pool(const PoolOptions& options, const Shape& src, int dim, const Rows& rows) {
  const int spatial = dim - 2;
  const auto p = pool_params(ops::PoolKind::max, options, src);
  const std::int64_t begin = rows.begin * p.stride[spatial] - p.pad_begin[spatial];
  const Rows windows{begin, begin + (rows.size() - 1) * p.stride[spatial] + p.kernel[spatial]};
  PoolPart part{windows.common({0, src[dim]}), options};
  part.options.pad_begin = p.pad_begin;
  part.options.pad_end = p.pad_end;
  part.options.pad_begin[spatial] = part.reads.begin - windows.begin;
  part.options.pad_end[spatial] = windows.end - part.reads.end;
  return part;
}

namespace {

using ops::Role;
using ops::Verb;

const char* op_name(const ops::PoolParams& p) { return p.kind == ops::PoolKind::max ? "max_pool" : "average_pool"; }

}  // namespace

PlannedPool plan_pool(ForwardBuilder& p, const ops::PoolParams& params, BufferId src) {
  const DType type = is_half(p.desc(src).dtype) && p.wants_f32() ? DType::f32 : p.desc(src).dtype;
  const auto describe = [&](const TensorDesc& x) {
    return ops::PoolDesc{params, x, p.dst_request(type), p.training()};
  };
  TensorDesc x = p.desc(src);
  x.dtype = type;
  std::shared_ptr<ops::Pool> pool = p.try_make(describe(x));
  if (!pool) pool = p.make(describe(x.with(x.layout.is_strided() ? x.layout : Layout::channels_last(x.shape))));
  src = p.converted(src, pool->layout(Verb::forward, Role::src), type);
  const BufferId workspace = p.workspace(*pool);
  const BufferId dst = p.new_dst(pool->layout(Verb::forward, Role::dst), type);
  p.forward(pool, {.src = src, .dst = dst, .workspace = workspace}, op_name(params));
  return {pool, workspace, dst, type};
}

BufferId pool_backward(BackwardBuilder& b, const PlannedPool& forward, BufferId diff_dst,
                       const std::function<BufferId(const Layout&, DType)>& new_diff_src) {
  const auto& pool = forward.pool;
  diff_dst = b.converted(diff_dst, pool->layout(Verb::backward_data, Role::diff_dst), forward.type);
  const BufferId diff_src = new_diff_src(pool->layout(Verb::backward_data, Role::diff_src), forward.type);
  b.backward_data(pool, {.diff_dst = diff_dst, .workspace = forward.workspace, .diff_src = diff_src},
                  forward.workspace == no_buffer ? "average_pool" : "max_pool");
  return diff_src;
}

ValueShape PoolLayer::infer(std::span<const ValueShape> srcs) const {
  const ValueShape& x = srcs[0];
  if (x.shape.rank() < 3) refuse("pooling takes (N, C, spatial...) values, but its input is {}", to_string(x.shape));
  return {ops::pool_dst_shape(x.shape, pool_params(kind_, options_, x.shape)), x.dtype, x.batch_axis};
}

std::optional<LayerPart> PoolLayer::part(std::span<const ValueShape> srcs, int dim, const Rows& rows) const {
  const PoolPart part = part_of_pool(options_, srcs[0].shape, dim, rows);
  return LayerPart{part.reads, std::make_shared<PoolLayer>(kind_, part.options), part.padding(dim)};
}

BackwardFn PoolLayer::plan(ForwardBuilder& p) const {
  const PlannedPool planned = plan_pool(p, pool_params(kind_, options_, p.src(0).shape), p.src_buffer(0));
  return [planned](BackwardBuilder& b) {
    pool_backward(b, planned, b.diff_dst(),
                  [&](const Layout& layout, DType type) { return b.new_diff_src(0, layout, type); });
  };
}

void PoolLayer::to_onnx(OnnxBuilder& b) const {
  const auto p = pool_params(kind_, options_, b.src_shape(0));
  auto attributes = onnx::window_attributes(p.kernel, p.stride, p.pad_begin, p.pad_end);
  if (kind_ == ops::PoolKind::max) return b.set_dst(b.op("MaxPool", {b.src(0)}, std::move(attributes)));
  attributes.push_back({"count_include_pad", std::int64_t{p.count_padding}});
  b.set_dst(b.op("AveragePool", {b.src(0)}, std::move(attributes)));
}

Var max_pool(Var x, const PoolOptions& options, const std::string& name) {
  return x.graph->add(std::make_shared<PoolLayer>(ops::PoolKind::max, options), {x}, name);
}

Var average_pool(Var x, const PoolOptions& options, const std::string& name) {
  return x.graph->add(std::make_shared<PoolLayer>(ops::PoolKind::average, options), {x}, name);
}

Var global_average_pool(Var x, const std::string& name) {
  const Shape shape = x.shape().shape;  // a copy: nodes move when others are added
  if (shape.rank() < 3) refuse("pooling takes (N, C, spatial...) values, but its input is {}", to_string(shape));
  for (int last = shape.rank() - 1; last >= 2; --last) {
    Shape kernel = Shape::filled(shape.rank() - 2, 1);
    kernel[last - 2] = shape[last];
    x = average_pool(x, {.kernel = kernel}, last > 2 || name.empty() ? "" : name);
  }
  return x;
}

}  // namespace keelson
