#include "engine/layers/embedding.hpp"

#include "engine/layers/layers.hpp"
#include "engine/onnx/builder.hpp"
#include "engine/plan/node_builder.hpp"

namespace keelson {

namespace {

class EmbeddingLayer : public Layer {
 public:
  explicit EmbeddingLayer(EmbeddingOptions options) : options_(options) {}

  std::string kind() const override { return "embedding"; }

  ValueShape infer(std::span<const ValueShape> srcs) const override {
    const ValueShape& ids = srcs[0];
    if (ids.dtype != DType::s32 || ids.batch_axis != 0 || ids.shape.rank() > 2)
      refuse("an embedding takes s32 numbers, (N) or (N, steps), not {} {}", to_string(ids.shape),
             to_string(ids.dtype));
    return {{ids.shape.elements(), options_.features}, DType::f32, 0};
  }

  std::vector<ParameterSpec> parameters(std::span<const ValueShape>) const override {
    return {{"weights", {options_.entries, options_.features}, options_.weights_init}};
  }

  std::optional<WholeNumbers> whole_numbers(std::span<const ValueShape>) const override {
    return WholeNumbers{.count = options_.entries, .noun = "row"};
  }

  std::vector<ChannelTie> channel_ties(std::span<const ValueShape>) const override {
    return {{options_.features, {TiedPlace::of_dst(), TiedPlace::makes("weights", 1)}}};
  }

  std::shared_ptr<const Layer> with_channels(std::span<const ValueShape>, std::span<const ValueShape>,
                                             std::int64_t channels) const override {
    auto layer = std::make_shared<EmbeddingLayer>(*this);
    layer->options_.features = channels;
    return layer;
  }

  std::optional<ChannelPart> channel_part(std::span<const ValueShape>, const Rows& channels) const override {
    EmbeddingOptions options = options_;
    options.features = channels.size();
    return ChannelPart{true, std::make_shared<EmbeddingLayer>(options), {{"weights", 1}}};
  }

  BackwardFn plan(ForwardBuilder& p) const override {
    const Shape table{options_.entries, options_.features};
    const BufferId ids = p.src_buffer(0), weights = p.parameter_in("weights", Layout::plain(table));
    std::shared_ptr<ops::Embedding> op = p.make(ops::EmbeddingDesc{p.src(0), TensorDesc::plain(table)});
    const BufferId dst = p.new_dst(Layout::plain(p.dst_shape()), p.result_type());
    p.forward(op, {.ids = ids, .weights = weights, .dst = dst});
    return [op, ids](BackwardBuilder& b) { gradient_of_rows(b, "weights", op, ids, b.diff_dst()); };
  }

  void to_onnx(OnnxBuilder& b) const override {
    const auto rows = b.op("Gather", {b.parameter("weights"), b.src(0)});  // (N, features), or (N, steps, features)
    b.set_dst(b.src_shape(0).rank() == 1 ? rows : b.op("Reshape", {rows, b.rows_of({options_.features})}));
  }

 private:
  EmbeddingOptions options_;
};

}  // namespace

void gradient_of_rows(BackwardBuilder& b, const std::string& parameter, const std::shared_ptr<ops::Embedding>& op,
                      BufferId ids, BufferId diff_dst) {
  const TensorDesc values = op->description().diff_rows_desc();
  const std::int64_t count = values.shape[0];
  const BufferId diff = b.in_layout(diff_dst, values.layout);
  const bool by_rows = b.use_sparse(parameter, count);
  const SparseGradient g = by_rows ? b.new_sparse_gradient(parameter, count)
                                   : SparseGradient{"", count, b.new_buffer("rows", op->description().rows_desc()),
                                                    b.new_buffer("diff_rows", values)};
  b.backward_weights(op, {.ids = ids, .diff_dst = diff, .rows = g.rows, .diff_rows = g.values});
  if (by_rows) return;
  BufferId whole = b.gradient_so_far(parameter);
  const bool accumulate = whole != no_buffer;
  if (!accumulate) whole = b.new_gradient(parameter, Layout::any());
  const BufferId plain = b.in_layout(whole, Layout::plain(b.desc(whole).shape));
  KEELSON_EXPECT(plain == whole);  // the forward pass has already asked for a plain table
  // A vector is a table of one column.
  const TensorDesc& table = op->description().weights;
  const BufferId rows = b.desc(whole).shape == table.shape ? whole : b.view(whole, table);
  std::shared_ptr<ops::AddRows> add = b.make(ops::AddRowsDesc{values, table, accumulate});
  b.forward(add, {.rows = g.rows, .diff_rows = g.values, .dst = rows}, "add rows");
}

Var embedding(Var ids, const EmbeddingOptions& options, const std::string& name) {
  if (options.entries < 1 || options.features < 1)
    refuse("an embedding of {} entries x {} features: expected at least 1 of each", options.entries, options.features);
  return ids.graph->add(std::make_shared<EmbeddingLayer>(options), {ids}, name);
}

}  // namespace keelson
