#include <cmath>
#include <limits>

#include "tests/oracle/ops.hpp"

namespace keelson::oracle {

namespace {

bool within(double id, std::int64_t entries) { return id >= 0 && id < static_cast<double>(entries); }

/// Row t of each sample of a (N * steps, width) matrix, and back.
Array step_of(const Array& rows, std::int64_t batch, std::int64_t t) {
  const std::int64_t steps = rows.shape[0] / batch, width = rows.shape[1];
  Array step(Shape{batch, width});
  for (std::int64_t n = 0; n < batch; ++n)
    for (std::int64_t j = 0; j < width; ++j) step[n * width + j] = rows[(n * steps + t) * width + j];
  return step;
}
void set_step(Array& rows, std::int64_t t, const Array& step) {
  const std::int64_t batch = step.shape[0], steps = rows.shape[0] / batch, width = rows.shape[1];
  for (std::int64_t n = 0; n < batch; ++n)
    for (std::int64_t j = 0; j < width; ++j) rows[(n * steps + t) * width + j] = step[n * width + j];
}

/// h of a state (N, states, H).
Array h_of(const Array& state) {
  const std::int64_t batch = state.shape[0], stride = state.shape[1] * state.shape[2], hidden = state.shape[2];
  Array h(Shape{batch, hidden});
  for (std::int64_t n = 0; n < batch; ++n)
    for (std::int64_t j = 0; j < hidden; ++j) h[n * hidden + j] = state[n * stride + j];
  return h;
}

/// Adds to h of a state.
void add_to_h(Array& state, const Array& h) {
  const std::int64_t stride = state.shape[1] * state.shape[2], hidden = state.shape[2];
  for (std::int64_t i = 0; i < h.elements(); ++i) state[i / hidden * stride + i % hidden] += h[i];
}

/// States before each step, and the one after the last.
std::vector<CellStep> steps_of(ops::CellKind kind, const Array& input, const Array& state, const Array& weights,
                               const Array& bias, std::vector<CellResult>& results) {
  const std::int64_t batch = state.shape[0], steps = input.shape[0] / batch;
  std::vector<CellStep> all;
  Array now = state;
  for (std::int64_t t = 0; t < steps; ++t) {
    all.push_back({step_of(input, batch, t), dense_forward(h_of(now), weights, {}, {false, {}}), bias, now});
    results.push_back(cell_forward(kind, all.back()));
    now = results.back().next_state;
  }
  return all;
}

}  // namespace

Array embedding_forward(const Array& ids, const Array& weights) {
  const std::int64_t width = weights.shape[1];
  Array dst(Shape{ids.elements(), width}, std::numeric_limits<double>::quiet_NaN());
  for (std::int64_t m = 0; m < ids.elements(); ++m)
    for (std::int64_t j = 0; j < width && within(ids[m], weights.shape[0]); ++j)
      dst[m * width + j] = weights[static_cast<std::int64_t>(ids[m]) * width + j];
  return dst;
}

Array embedding_backward(const Array& ids, const Array& diff_dst, const Shape& weights_shape) {
  const std::int64_t width = weights_shape[1];
  Array diff(weights_shape);
  for (std::int64_t m = 0; m < ids.elements(); ++m)
    for (std::int64_t j = 0; j < width && within(ids[m], weights_shape[0]); ++j)
      diff[static_cast<std::int64_t>(ids[m]) * width + j] += diff_dst[m * width + j];
  return diff;
}

CellResult cell_forward(ops::CellKind kind, const CellStep& s) {
  const std::int64_t batch = s.state.shape[0], states = s.state.shape[1], hidden = s.state.shape[2];
  const std::int64_t gates = ops::gates_of(kind);
  CellResult r{Array(s.input.shape), Array(s.state.shape)};
  for (std::int64_t n = 0; n < batch; ++n)
    for (std::int64_t j = 0; j < hidden; ++j) {
      const auto gate = [&](std::int64_t k) { return (n * gates + k) * hidden + j; };
      const std::int64_t h = n * states * hidden + j, c = h + hidden;
      const auto sum = [&](std::int64_t k) { return s.input[gate(k)] + s.recurrent[gate(k)]; };
      if (kind == ops::CellKind::lstm) {
        const double i = sigmoid(sum(0)), f = sigmoid(sum(1)), g = std::tanh(sum(2)), o = sigmoid(sum(3));
        r.gates[gate(0)] = i, r.gates[gate(1)] = f, r.gates[gate(2)] = g, r.gates[gate(3)] = o;
        r.next_state[c] = f * s.state[c] + i * g;
        r.next_state[h] = o * std::tanh(r.next_state[c]);
      } else {
        const double reset = sigmoid(sum(0)), z = sigmoid(sum(1));
        const double candidate = std::tanh(s.input[gate(2)] + reset * (s.recurrent[gate(2)] + s.bias[j]));
        r.gates[gate(0)] = reset, r.gates[gate(1)] = z, r.gates[gate(2)] = candidate;
        r.next_state[h] = (1 - z) * candidate + z * s.state[h];
      }
    }
  return r;
}

CellGradients cell_backward(ops::CellKind kind, const CellStep& s, const Array& diff_next_state) {
  const CellResult r = cell_forward(kind, s);
  const std::int64_t batch = s.state.shape[0], states = s.state.shape[1], hidden = s.state.shape[2];
  const std::int64_t gates = ops::gates_of(kind);
  CellGradients d{Array(s.input.shape), Array(s.input.shape), {}, Array(s.state.shape)};
  if (kind == ops::CellKind::gru) d.bias = Array(s.bias.shape);
  for (std::int64_t n = 0; n < batch; ++n)
    for (std::int64_t j = 0; j < hidden; ++j) {
      const auto gate = [&](std::int64_t k) { return (n * gates + k) * hidden + j; };
      const std::int64_t h = n * states * hidden + j, c = h + hidden;
      const double dh = diff_next_state[h];
      const auto set = [&](std::int64_t k, double part) { d.input[gate(k)] = d.recurrent[gate(k)] = part; };
      if (kind == ops::CellKind::lstm) {
        const double i = r.gates[gate(0)], f = r.gates[gate(1)], g = r.gates[gate(2)], o = r.gates[gate(3)];
        const double y = std::tanh(r.next_state[c]), dc = diff_next_state[c] + dh * o * (1 - y * y);
        set(0, dc * g * i * (1 - i));
        set(1, dc * s.state[c] * f * (1 - f));
        set(2, dc * i * (1 - g * g));
        set(3, dh * y * o * (1 - o));
        d.state[c] = dc * f;
      } else {
        const double reset = r.gates[gate(0)], z = r.gates[gate(1)], candidate = r.gates[gate(2)];
        const double inside = dh * (1 - z) * (1 - candidate * candidate);
        set(0, inside * (s.recurrent[gate(2)] + s.bias[j]) * reset * (1 - reset));
        set(1, dh * (s.state[h] - candidate) * z * (1 - z));
        d.input[gate(2)] = inside;
        d.recurrent[gate(2)] = inside * reset;
        d.bias[j] += inside * reset;
        d.state[h] = dh * z;
      }
    }
  return d;
}

SequenceResult sequence_forward(ops::CellKind kind, const Array& input, const Array& state, const Array& weights,
                                const Array& bias) {
  std::vector<CellResult> results;
  const auto steps = steps_of(kind, input, state, weights, bias, results);
  SequenceResult s{Array(Shape{input.shape[0], state.shape[2]}), results.back().next_state};
  for (std::size_t t = 0; t < steps.size(); ++t)
    set_step(s.dst, static_cast<std::int64_t>(t), h_of(results[t].next_state));
  return s;
}

SequenceGradients sequence_backward(ops::CellKind kind, const Array& diff_dst, const Array& input, const Array& state,
                                    const Array& weights, const Array& bias) {
  std::vector<CellResult> results;
  const auto steps = steps_of(kind, input, state, weights, bias, results);
  SequenceGradients d{Array(input.shape), Array(weights.shape), bias.empty() ? Array() : Array(bias.shape),
                      Array(state.shape)};
  for (auto t = static_cast<std::int64_t>(steps.size()) - 1; t >= 0; --t) {
    const CellStep& s = steps[static_cast<std::size_t>(t)];
    add_to_h(d.state, step_of(diff_dst, state.shape[0], t));
    const CellGradients g = cell_backward(kind, s, d.state);
    set_step(d.input, t, g.input);
    d.weights = sum({d.weights, dense_backward_weights(h_of(s.state), g.recurrent)});
    if (!bias.empty()) d.bias = sum({d.bias, g.bias});
    d.state = g.state;
    add_to_h(d.state, dense_backward_data(g.recurrent, weights));
  }
  return d;
}

}  // namespace keelson::oracle
