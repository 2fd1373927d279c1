#include "engine/ops/sampled_softmax.hpp"

#include "engine/base/philox.hpp"
#include "engine/layers/embedding.hpp"
#include "engine/layers/layers.hpp"
#include "engine/layers/weighted.hpp"
#include "engine/onnx/builder.hpp"
#include "engine/ops/loss.hpp"

namespace keelson {

namespace {

class SampledSoftmaxLayer : public Layer {
 public:
  explicit SampledSoftmaxLayer(SampledSoftmaxOptions options) : options_(std::move(options)) {}

  std::string kind() const override { return "sampled_softmax"; }

  ValueShape infer(std::span<const ValueShape> srcs) const override {
    const ValueShape &x = srcs[0], &target = srcs[1];
    if (x.shape.rank() != 2 || x.batch_axis != 0)
      refuse("a sampled softmax takes (N, features) values, not {}: flatten() it first", to_string(x.shape));
    if (target.dtype != DType::s32 || target.shape.rank() > 2 || target.shape.elements() != x.rows_per_sample())
      refuse("a sampled softmax takes one s32 class number for each of {} rows per sample as its target, not {} {}",
             x.rows_per_sample(), to_string(target.shape), to_string(target.dtype));
    return {{1}, DType::f64, -1};
  }

  std::vector<ParameterSpec> parameters(std::span<const ValueShape> srcs) const override {
    return {{"weights", {options_.classes, srcs[0].shape[1]}, options_.weights_init},
            {"bias", {options_.classes}, options_.bias_init}};
  }

  std::optional<WholeNumbers> whole_numbers(std::span<const ValueShape>) const override {
    return WholeNumbers{.src = 1, .count = options_.classes, .minus_one_is_ignored = true};
  }

  std::vector<ChannelTie> channel_ties(std::span<const ValueShape> srcs) const override {
    return {{srcs[0].shape[1], {TiedPlace::of_src(), TiedPlace::multiplies("weights", 1)}}};
  }

  BackwardFn plan(ForwardBuilder& p) const override { return p.training() ? plan_samples(p) : plan_all(p); }

  void to_onnx(OnnxBuilder& b) const override { b.refuse_layer("a loss is only for training and evaluation"); }

 private:
  /// The rows of the parameters that belong to the candidates.
  struct Candidates {
    std::shared_ptr<ops::Embedding> table, column;  ///< look up rows of the weights, and of the bias
    BufferId ids, shift, places, weights, bias;     ///< places: of the targets; bias: a vector
  };

  BackwardFn plan_all(ForwardBuilder& p) const {
    const TensorDesc logits = TensorDesc::plain({p.src(0).shape[0], options_.classes});
    const auto f = forward_weighted(p, {}, logits, [&](const TensorDesc& src, const TensorDesc& weights, DType type) {
      return dense(p, src, weights, logits.shape, type);
    });
    compare(p, p.converted(f.y, logits.layout, DType::f32), p.src_buffer(1));
    return nullptr;
  }

  BackwardFn plan_samples(ForwardBuilder& p) const {
    using enum ops::Role;
    using enum ops::Verb;
    const Candidates c = draw(p);
    const TensorDesc found = p.desc(c.weights), logits = TensorDesc::plain({p.src(0).shape[0], found.shape[0]});
    DType type = p.compute();
    const auto describe_for = [&](DType t) {
      return dense(p, p.src_request(0, t), {found.shape, t, Layout::any()}, logits.shape, DType::f32);
    };
    std::shared_ptr<ops::Dense> op = is_half(type) ? p.try_make(describe_for(type)) : nullptr;
    if (!op) op = p.make(describe_for(type = DType::f32));
    const BufferId x = p.converted(p.src_buffer(0), op->layout(forward, src), type);
    const BufferId w = p.converted(c.weights, op->layout(forward, weights), type);
    const BufferId y = p.new_buffer("logits", logits.with(op->layout(forward, dst)));
    p.forward(op, {.src = x, .weights = w, .bias = c.bias, .dst = y}, "dense");
    const BufferId shifted = p.in_layout(y, logits.layout);
    p.forward(p.make(ops::SampledLogitsDesc{logits}), {.ids = c.ids, .shift = c.shift, .logits = shifted},
              "sampled logits");
    const BufferId diff = compare(p, shifted, c.places);
    return [=](BackwardBuilder& b) {
      const BufferId diff_w = b.converted(diff, op->layout(backward_weights, diff_dst), type);
      const BufferId dw = b.new_buffer("diff_rows", found.with(op->layout(backward_weights, diff_weights)));
      const BufferId db = b.new_buffer("diff_bias_rows", TensorDesc::plain({found.shape[0], 1}));
      b.backward_weights(op,
                         {.src = b.in_layout(x, op->layout(backward_weights, src)),
                          .diff_dst = diff_w,
                          .diff_weights = dw,
                          .diff_bias = b.view(db, TensorDesc::plain({found.shape[0]}))},
                         "dense");
      gradient_of_rows(b, "weights", c.table, c.ids, dw);
      gradient_of_rows(b, "bias", c.column, c.ids, db);
      if (!b.wants_diff_src(0)) return;
      const BufferId diff_d = b.converted(diff, op->layout(backward_data, diff_dst), type);
      const BufferId dx = b.new_diff_src(0, op->layout(backward_data, diff_src));
      b.backward_data(op,
                      {.diff_dst = diff_d,
                       .weights = b.converted(c.weights, op->layout(backward_data, weights), type),
                       .diff_src = dx},
                      "dense");
    };
  }

  static ops::DenseDesc dense(const ForwardBuilder& p, const TensorDesc& src, const TensorDesc& weights,
                              const Shape& logits, DType type) {
    return {{}, src, weights, {logits, type, Layout::any()}, p.training(), p.wants_diff_src(0), p.tf32()};
  }

  /// Draws the classes, and looks up their rows.
  Candidates draw(ForwardBuilder& p) const {
    const ops::SampleClassesDesc d{p.src(1), options_.classes, options_.samples, philox::stream_of(p.node().name)};
    const std::shared_ptr<ops::SampleClasses> op = p.make(d);
    Candidates c;
    c.ids = p.new_buffer("ids", d.ids_desc());
    c.shift = p.new_buffer("shift", d.shift_desc());
    c.places = p.new_buffer("places", d.places_desc());
    p.forward(
        op,
        {.step_params = p.step_params(), .target = p.src_buffer(1), .ids = c.ids, .shift = c.shift, .places = c.places},
        "sample classes");
    const std::int64_t features = p.src(0).shape[1], count = d.candidates();
    const auto look_up = [&](const std::string& name, const TensorDesc& table, BufferId parameter, BufferId found) {
      const std::shared_ptr<ops::Embedding> rows = p.make(ops::EmbeddingDesc{d.ids_desc(), table});
      p.forward(rows, {.ids = c.ids, .weights = parameter, .dst = found}, name + " of classes");
      return rows;
    };
    const TensorDesc table = TensorDesc::plain({options_.classes, features}),
                     column = TensorDesc::plain({options_.classes, 1});
    c.weights = p.new_buffer("rows", TensorDesc::plain({count, features}));
    c.table = look_up("weights", table, p.parameter_in("weights", table.layout), c.weights);
    const BufferId bias = p.parameter_in("bias", Layout::plain({options_.classes}));
    const BufferId bias_rows = p.new_buffer("bias_rows", TensorDesc::plain({count, 1}));
    c.column = look_up("bias", column, p.view(bias, column), bias_rows);
    c.bias = p.view(bias_rows, TensorDesc::plain({count}));
    return c;
  }

  /// Emits the loss, and makes it the result. Returns the gradient of the prediction; no_buffer without training.
  BufferId compare(ForwardBuilder& p, BufferId prediction, BufferId classes) const {
    const ops::LossParams params{.kind = ops::LossKind::cross_entropy, .sum_rows = options_.sum_rows};
    const ops::LossDesc d{params, p.desc(prediction), p.desc(classes), p.src_value(0).rows_per_sample()};
    const BufferId diff = p.training() ? p.new_buffer("diff_logits", d.prediction) : no_buffer;
    p.set_dst(p.loss());
    p.forward(p.make(d),
              {.step_params = p.step_params(),
               .prediction = prediction,
               .target = classes,
               .weight = p.sample_weight(),
               .loss = p.loss(),
               .diff_prediction = diff,
               .loss_scale = p.loss_scale(),
               .sample_loss = p.sample_loss()},
              "cross_entropy");
    return diff;
  }

  SampledSoftmaxOptions options_;
};

}  // namespace

Var sampled_softmax(Var x, Var target, const SampledSoftmaxOptions& options, const std::string& name) {
  if (options.samples < 1 || options.samples >= options.classes)
    refuse("a sampled softmax of {} of {} classes: expected at least 1, and fewer than there are classes",
           options.samples, options.classes);
  std::map<std::string, std::string> shared;
  if (!options.weights_of.empty()) shared["weights"] = options.weights_of + "/weights";
  return x.graph->add_loss(std::make_shared<SampledSoftmaxLayer>(options), {x, target}, name, std::move(shared));
}

}  // namespace keelson
