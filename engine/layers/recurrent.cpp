#include "engine/layers/recurrence.hpp"

#include "engine/layers/recurrent_onnx.hpp"

namespace keelson {

namespace {

using ops::CellKind;

/// Computes the outputs from the input parts of the gates, which a dense layer has made for all steps at once.
class RecurrentLayer : public Layer {
 public:
  RecurrentLayer(CellKind cell, std::int64_t hidden, Init init) : cell_(cell), hidden_(hidden), init_(init) {}

  std::string kind() const override { return std::string(ops::to_string(cell_)); }

  ValueShape infer(std::span<const ValueShape> srcs) const override {
    const ValueShape& gates = srcs[0];
    KEELSON_EXPECT(gates.shape.rank() == 2 && gates.batch_axis == 0 &&
                   gates.shape[1] == ops::gates_of(cell_) * hidden_);
    if (srcs.size() == 1) return {{gates.shape[0], hidden_}, DType::f32, 0};
    const ValueShape& state = srcs[1];
    if (!(state.shape == Shape{1, ops::states_of(cell_), hidden_}))
      refuse("a {} of {} hidden units has a state of {}, not {}", kind(), hidden_,
             to_string(Shape{ops::states_of(cell_), hidden_}), to_string(state.shape));
    return {{gates.shape[0], hidden_}, DType::f32, 0};
  }

  std::vector<ParameterSpec> parameters(std::span<const ValueShape>) const override {
    std::vector<ParameterSpec> specs{{"weights", {ops::gates_of(cell_) * hidden_, hidden_}, init_}};
    if (cell_ == CellKind::gru) specs.push_back({"bias", {hidden_}, Init::constant(0)});
    return specs;
  }

  std::vector<ChannelTie> channel_ties(std::span<const ValueShape> srcs) const override {
    const auto gates = ops::gates_of(cell_);
    ChannelTie units{hidden_,
                     {TiedPlace::of_src(0, gates), TiedPlace::of_dst(), TiedPlace::makes("weights", 0, gates),
                      TiedPlace::multiplies("weights", 1)}};
    if (srcs.size() > 1) {
      units.places.push_back(TiedPlace::of_src(1));
      units.places.back().dim = 2;
    }
    if (cell_ == CellKind::gru) units.places.push_back(TiedPlace::makes("bias", 0));
    return {units};
  }

  std::shared_ptr<const Layer> with_channels(std::span<const ValueShape>, std::span<const ValueShape>,
                                             std::int64_t channels) const override {
    return std::make_shared<RecurrentLayer>(cell_, channels, init_);
  }

  BackwardFn plan(ForwardBuilder& p) const override {
    ops::RecurrentCellDesc cell{cell_, p.batch(), p.src_value(0).rows_per_sample(), hidden_, p.result_type()};
    if (cell.type != DType::f32 && !Recurrence::takes(p.context(), cell)) cell.type = DType::f32;
    const auto r = std::make_shared<Recurrence>(p.context(), cell, p.training(), p.compute(), p.tf32());
    const TensorDesc rows = TensorDesc::plain(p.dst_shape(), cell.type);
    Kept f;
    const BufferId src = p.converted(p.src_buffer(0), Layout::plain(p.src(0).shape), cell.type);
    f.gates = p.new_buffer("gates", p.desc(src));
    f.weights = p.parameter_in("weights", Layout::plain(p.parameter("weights").shape), cell.type);
    f.bias = cell_ == CellKind::gru ? p.parameter_in("bias", Layout::any()) : no_buffer;
    f.h_prev = p.new_buffer("h_prev", rows);
    f.saved = p.new_buffer("saved", TensorDesc::plain(rows.shape));
    // Without a state, all samples begin with zeros: memory that nobody writes.
    const bool carries = p.node().srcs.size() > 1;
    const TensorDesc state_desc = TensorDesc::plain(cell.state_shape());
    const BufferId state = carries ? p.src_buffer(1) : p.new_owned("first_state", state_desc);
    f.next_state = carries ? p.next_state(1) : p.new_buffer("last_state", state_desc);
    const BufferId dst = p.new_dst(rows.layout, cell.type);
    p.forward(r, {.input = src,
                  .gates = f.gates,
                  .state = state,
                  .weights = f.weights,
                  .bias = f.bias,
                  .h_prev = f.h_prev,
                  .saved = f.saved,
                  .next_state = f.next_state,
                  .dst = dst});
    return [r, f](BackwardBuilder& b) { backward(b, r, f); };
  }

  void to_onnx(OnnxBuilder& b) const override { recurrent_to_onnx(b, cell_, hidden_); }

 private:
  struct Kept {
    BufferId gates, weights, bias, h_prev, saved, next_state;
  };

  static void backward(BackwardBuilder& b, const std::shared_ptr<Recurrence>& r, const Kept& f) {
    const auto& d = r->description();
    const TensorDesc gates = TensorDesc::plain({d.rows(), d.gates()}, d.type);
    const BufferId diff_dst = b.diff_dst_in(Layout::plain({d.rows(), d.hidden}), d.type);
    const BufferId diff_src = b.new_diff_src(0, gates.layout, d.type);
    // For gru, the gradients of input and recurrent parts differ in the candidate.
    const bool two = d.kind == CellKind::gru;
    const BufferId diff_recurrent = two ? b.new_buffer("diff_recurrent", gates) : no_buffer;
    b.backward_data(r, {.gates = f.gates,
                        .diff_gates = diff_src,
                        .weights = f.weights,
                        .h_prev = f.h_prev,
                        .saved = f.saved,
                        .next_state = f.next_state,
                        .diff_dst = diff_dst,
                        .diff_recurrent = diff_recurrent});
    const BufferId dw = b.new_gradient("weights", Layout::plain({d.gates(), d.hidden}));
    const BufferId db = two ? b.new_gradient("bias", Layout::any()) : no_buffer;
    b.backward_weights(
        r,
        {.diff_recurrent = two ? diff_recurrent : diff_src, .h_prev = f.h_prev, .diff_weights = dw, .diff_bias = db});
    b.finish_gradients();
  }

  CellKind cell_;
  std::int64_t hidden_;
  Init init_;
};

Var recurrent_layer(CellKind cell, Var x, const RecurrentOptions& options, const std::string& name) {
  Graph& graph = *x.graph;
  const Var gates = dense(x,
                          {.features = ops::gates_of(cell) * options.hidden,
                           .weights_init = options.weights_init,
                           .bias_init = options.bias_init},
                          name + "_input");
  std::vector<Var> srcs{gates};
  if (options.carries_state) srcs.push_back(graph.state(name + "_state", {ops::states_of(cell), options.hidden}));
  return graph.add(std::make_shared<RecurrentLayer>(cell, options.hidden, options.weights_init), srcs, name);
}

Var recurrent(CellKind cell, Var x, const RecurrentOptions& options, const std::string& name) {
  if (options.hidden < 1 || options.layers < 1)
    refuse("{} layers of {} hidden units: expected at least 1 of each", options.layers, options.hidden);
  if (x.shape().shape.rank() != 2 || x.shape().batch_axis != 0)
    refuse("a recurrent layer takes rows of features, one row per step, not {}", to_string(x.shape().shape));
  const std::string prefix = name.empty() ? std::string(ops::to_string(cell)) : name;
  for (int l = 1; l <= options.layers; ++l) {
    if (l > 1 && options.dropout > 0) x = dropout(x, options.dropout, fmt::format("{}_dropout{}", prefix, l - 1));
    x = recurrent_layer(cell, x, options, fmt::format("{}{}", prefix, l));
  }
  return x;
}

}  // namespace

Var lstm(Var x, const RecurrentOptions& options, const std::string& name) {
  return recurrent(CellKind::lstm, x, options, name);
}
Var gru(Var x, const RecurrentOptions& options, const std::string& name) {
  return recurrent(CellKind::gru, x, options, name);
}

}  // namespace keelson
