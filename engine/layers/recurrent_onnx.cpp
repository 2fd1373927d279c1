#include "engine/layers/recurrent_onnx.hpp"

#include <algorithm>

namespace keelson {

namespace {

using Integers = std::vector<std::int64_t>;

/// For each gate of ONNX, the index of Keelson's gate: ONNX i, o, f, c from i, f, g, o; ONNX z, r, h from r, z, n.
std::vector<int> gate_order(ops::CellKind cell) {
  if (cell == ops::CellKind::lstm) return {0, 3, 1, 2};
  return {1, 0, 2};
}

/// The blocks (of equal size, one per gate) in ONNX' order.
std::vector<float> reordered(const std::vector<float>& gates, ops::CellKind cell) {
  const auto order = gate_order(cell);
  const auto block = std::ssize(gates) / std::ssize(order);
  std::vector<float> result;
  for (const int gate : order)
    result.insert(result.end(), gates.begin() + gate * block, gates.begin() + (gate + 1) * block);
  return result;
}

/// The weights of the inputs (gates * hidden, in) or of the state (gates * hidden, hidden), for one direction.
std::string gate_weights(OnnxBuilder& b, const std::string& label, ops::CellKind cell, std::int64_t hidden,
                         std::int64_t columns, const std::string& parameter) {
  return b.made_of(label, {1, ops::gates_of(cell) * hidden, columns},
                   [=](const Parameters& p) { return reordered(OnnxBuilder::values(p, parameter), cell); });
}

/// The biases of the input parts, then those of the recurrent parts: zeros, except for the candidate of a GRU.
std::string gate_biases(OnnxBuilder& b, ops::CellKind cell, std::int64_t hidden, const std::string& input_bias) {
  const std::int64_t gates = ops::gates_of(cell) * hidden;
  const std::string own = cell == ops::CellKind::gru ? b.node().parameter("bias") : "";
  return b.made_of("B", {1, 2 * gates}, [=](const Parameters& p) {
    std::vector<float> values;
    if (p.find(input_bias)) values = reordered(OnnxBuilder::values(p, input_bias), cell);
    values.resize(static_cast<std::size_t>(2 * gates));  // a dense layer without bias: all zeros
    if (own.empty()) return values;
    const auto candidate = OnnxBuilder::values(p, own);
    std::ranges::copy(candidate, values.end() - hidden);
    return values;
  });
}

}  // namespace

void recurrent_to_onnx(OnnxBuilder& b, ops::CellKind cell, std::int64_t hidden) {
  const Graph::Node& gates = b.src_node(0);
  if (gates.layer->kind() != "dense")
    b.refuse_layer(fmt::format("its gates come from {} ({}), but ONNX needs a dense layer there", gates.name,
                               gates.layer->kind()));
  const std::int64_t steps = gates.shape.rows_per_sample();
  const std::int64_t features = b.node_at(gates.srcs[0]).shape.shape[1];

  // (N * steps, features), with the steps of a sample one after the other -> (steps, N, features)
  const auto samples = b.op("Reshape", {b.value_of(gates.srcs[0]), b.rows_of({steps, features})});
  const auto x = b.op("Transpose", {samples}, {{"perm", Integers{1, 0, 2}}});
  const auto w = gate_weights(b, "W", cell, hidden, features, gates.parameter("weights"));
  const auto r = gate_weights(b, "R", cell, hidden, hidden, b.node().parameter("weights"));
  const auto bias = gate_biases(b, cell, hidden, gates.parameter("bias"));
  const bool lstm = cell == ops::CellKind::lstm;
  std::vector<onnx::Attribute> attributes{{"hidden_size", hidden}};
  if (!lstm) attributes.push_back({"linear_before_reset", std::int64_t{1}});
  std::vector<std::string> inputs{x, w, r, bias};
  std::string y;
  if (b.node().srcs.size() == 1) {  // each sequence begins with zeros
    y = b.ops(lstm ? "LSTM" : "GRU", inputs, attributes, 1)[0];
  } else {
    // (N, states, hidden) -> (1, N, hidden) for each
    const auto state = b.op("Transpose", {b.src(1)}, {{"perm", Integers{1, 0, 2}}});
    inputs.push_back("");
    std::string next;
    if (lstm) {
      const auto states = b.ops("Split", {state}, {{"axis", std::int64_t{0}}}, 2);
      inputs.insert(inputs.end(), states.begin(), states.end());
      const auto made = b.ops("LSTM", inputs, attributes, 3);
      y = made[0];
      next = b.op("Concat", {made[1], made[2]}, {{"axis", std::int64_t{0}}});
    } else {
      inputs.push_back(state);
      const auto made = b.ops("GRU", inputs, attributes, 2);
      y = made[0];
      next = made[1];
    }
    b.set_next_state(1, b.op("Transpose", {next}, {{"perm", Integers{1, 0, 2}}}));
  }
  // (steps, 1, N, hidden) -> (N steps, hidden)
  const auto by_sample = b.op("Transpose", {y}, {{"perm", Integers{2, 0, 1, 3}}});
  b.set_dst(b.op("Reshape", {by_sample, b.rows_of({hidden})}));
}

}  // namespace keelson
