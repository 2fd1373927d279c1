#include "engine/ops/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/layers/layers.hpp"
#include "engine/onnx/builder.hpp"
#include "engine/plan/node_builder.hpp"

namespace keelson {

namespace {

class AttentionLayer : public Layer {
 public:
  AttentionLayer(std::int64_t heads, bool causal) : heads_(heads), causal_(causal) {}
  std::string kind() const override { return "attention"; }
  bool keeps_type() const override { return true; }

  ValueShape infer(std::span<const ValueShape> srcs) const override {
    const Shape& rows = srcs[0].shape;
    if (rows.rank() != 2 || srcs[0].batch_axis != 0)
      refuse("attention takes rows of features, one row per step, not {}", to_string(rows));
    for (const ValueShape& s : srcs)
      if (!(s.shape == rows))
        refuse("queries, keys and values of different shapes: {} and {}", to_string(rows), to_string(s.shape));
    if (heads_ < 1 || rows[1] % heads_ != 0)
      refuse("{} features cannot be divided into {} heads of equal width", rows[1], heads_);
    return srcs[0];
  }

  BackwardFn plan(ForwardBuilder& p) const override {
    const TensorDesc d = TensorDesc::plain(p.src(0).shape, p.type());
    const ops::AttentionDesc desc{d, p.src_value(0).rows_per_sample(), heads_, causal_};
    std::shared_ptr<ops::Attention> op = p.make(desc);
    std::vector<BufferId> srcs;
    for (int i = 0; i < 3; ++i) srcs.push_back(p.src_in(i, d.layout));
    const BufferId dst = p.new_dst(d.layout, d.dtype), saved = p.new_buffer("saved", desc.saved_desc());
    p.forward(op, {.srcs = srcs, .dst = dst, .saved = saved});
    return [=](BackwardBuilder& b) {
      const BufferId diff_dst = b.diff_dst_in(d.layout, d.dtype);
      std::vector<BufferId> diff_srcs;
      for (int i = 0; i < 3; ++i)
        diff_srcs.push_back(b.wants_diff_src(i) ? b.new_diff_src(i, d.layout, d.dtype) : b.new_buffer("unused", d));
      b.backward_data(op, {.diff_dst = diff_dst, .srcs = srcs, .dst = dst, .saved = saved, .diff_srcs = diff_srcs});
    };
  }

  void to_onnx(OnnxBuilder& b) const override {
    const std::int64_t steps = b.src_node(0).shape.rows_per_sample(), features = b.dst_shape()[1];
    const std::int64_t width = features / heads_;
    // (N * steps, features) -> (N, heads, steps, width); keys (N, heads, width, steps)
    const auto heads = [&](int src, std::vector<std::int64_t> order) {
      const auto samples = b.op("Reshape", {b.src(src), b.rows_of({steps, heads_, width})});
      return b.op("Transpose", {samples}, {{"perm", std::move(order)}});
    };
    const auto product = b.op("MatMul", {heads(0, {0, 2, 1, 3}), heads(1, {0, 2, 3, 1})});
    auto scores = b.op("Mul", {product, b.scalar(1 / std::sqrt(static_cast<float>(width)))});
    if (causal_) scores = b.op("Add", {scores, later_steps(b, steps)});
    const auto weights = b.op("Softmax", {scores}, {{"axis", std::int64_t{3}}});
    const auto result = b.op("MatMul", {weights, heads(2, {0, 2, 1, 3})});
    const auto rows = b.op("Transpose", {result}, {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
    b.set_dst(b.op("Reshape", {rows, b.rows_of({features})}));
  }

 private:
  /// What is added to scores: minus infinity for steps that are later than the query's, else 0.
  static std::string later_steps(OnnxBuilder& b, std::int64_t steps) {
    return b.made_of("later steps", {steps, steps}, [steps](const Parameters&) {
      std::vector<float> mask(static_cast<std::size_t>(steps * steps), 0.0f);
      for (std::int64_t i = 0; i < steps; ++i)
        std::fill(mask.begin() + i * steps + i + 1, mask.begin() + (i + 1) * steps,
                  -std::numeric_limits<float>::infinity());
      return mask;
    });
  }

  std::int64_t heads_;
  bool causal_;
};

/// "attention1", or with the first number whose nodes do not exist yet.
std::string free_attention_name(const Graph& graph) {
  for (int i = 1;; ++i) {
    const std::string name = fmt::format("attention{}", i);
    if (std::ranges::none_of(graph.nodes(), [&](const auto& n) { return n.name == name || n.name == name + "_heads"; }))
      return name;
  }
}

}  // namespace

Var attention(Var queries, Var keys, Var values, std::int64_t heads, bool causal, const std::string& name) {
  return queries.graph->add(std::make_shared<AttentionLayer>(heads, causal), {queries, keys, values}, name);
}

Var multi_head_attention(Var x, const MultiHeadAttentionOptions& options, const std::string& name) {
  const ValueShape shape = x.shape();
  if (shape.shape.rank() != 2 || shape.batch_axis != 0)
    refuse("multi-head attention takes rows of features, one row per step, not {}", to_string(shape.shape));
  if (options.heads < 1 || shape.shape[1] % options.heads != 0)  // before nodes are added
    refuse("multi-head attention of {} heads on {} features: expected a number of heads that divides the features",
           options.heads, shape.shape[1]);
  const std::string prefix = name.empty() ? free_attention_name(*x.graph) : name;
  const DenseOptions same{.features = shape.shape[1],
                          .bias = options.bias,
                          .weights_init = options.weights_init,
                          .bias_init = options.bias_init};
  const Var queries = dense(x, same, prefix + "_queries"), keys = dense(x, same, prefix + "_keys"),
            values = dense(x, same, prefix + "_values");
  return dense(attention(queries, keys, values, options.heads, options.causal, prefix + "_heads"), same, prefix);
}

}  // namespace keelson
