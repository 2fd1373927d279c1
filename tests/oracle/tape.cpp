#include "tests/oracle/tape.hpp"

#include "engine/base/philox.hpp"
#include "tests/oracle/batch_norm.hpp"

namespace keelson::oracle {

namespace {

/// (N, C, spatial...) <-> the same elements with channels last, in row-major order.
Array move_channels(const Array& a, const Shape& logical, bool to_last) {
  Array result = a;
  const std::int64_t n = logical[0], c = logical[1], s = logical.elements() / (n * c);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t k = 0; k < c; ++k)
      for (std::int64_t j = 0; j < s; ++j) {
        const std::int64_t first = (i * c + k) * s + j, last = (i * s + j) * c + k;
        (to_last ? result[last] : result[first]) = to_last ? a[first] : a[last];
      }
  return result;
}

}  // namespace

int Tape::record(Array a, std::vector<int> srcs, Backward backward) {
  values_.push_back(std::move(a));
  steps_.push_back({std::move(srcs), std::move(backward)});
  return static_cast<int>(values_.size()) - 1;
}

void Tape::add_gradient(const std::string& name, const Array& g) {
  auto [at, fresh] = gradients_.try_emplace(name, g);
  if (!fresh) at->second = sum({at->second, g});
}

int Tape::conv(int x, const std::string& name, ops::ConvParams p) {
  const Array& w = parameters_.at(name + "/weights");
  p.bias = parameters_.contains(name + "/bias");
  const Array b = p.bias ? parameters_.at(name + "/bias") : Array();
  return record(conv_forward(values_[x], w, b, p), {x}, [=, this, &w](const Array& diff) {
    add_gradient(name + "/weights", conv_backward_weights(values_[x], diff, w.shape, p));
    if (p.bias) add_gradient(name + "/bias", backward_bias(diff));
    // Nothing reads the gradient of the input, and in the first layer it is the dearest of all.
    if (steps_[x].srcs.empty()) return std::vector<Array>{Array(values_[x].shape)};
    return std::vector<Array>{conv_backward_data(diff, w, values_[x].shape, p)};
  });
}

int Tape::transposed_conv(int x, const std::string& name, ops::TransposedConvParams p) {
  const Array& w = parameters_.at(name + "/weights");
  p.bias = parameters_.contains(name + "/bias");
  const Array b = p.bias ? parameters_.at(name + "/bias") : Array();
  return record(transposed_conv_forward(values_[x], w, b, p), {x}, [=, this, &w](const Array& diff) {
    add_gradient(name + "/weights", transposed_conv_backward_weights(values_[x], diff, w.shape, p));
    if (p.bias) add_gradient(name + "/bias", backward_bias(diff));
    return std::vector<Array>{transposed_conv_backward_data(diff, w, values_[x].shape, p)};
  });
}

int Tape::dense(int x, const std::string& name, const std::string& weights_of) {
  const std::string weights = (weights_of.empty() ? name : weights_of) + "/weights";
  const Array& w = parameters_.at(weights);
  const ops::DenseParams p{.bias = parameters_.contains(name + "/bias")};
  const Array b = p.bias ? parameters_.at(name + "/bias") : Array();
  return record(dense_forward(values_[x], w, b, p), {x}, [=, this, &w](const Array& diff) {
    add_gradient(weights, dense_backward_weights(values_[x], diff));
    if (p.bias) add_gradient(name + "/bias", backward_bias(diff));
    return std::vector<Array>{dense_backward_data(diff, w)};
  });
}

int Tape::embedding(int ids, const std::string& name) {
  const Array& w = parameters_.at(name + "/weights");
  return record(embedding_forward(values_[ids], w), {ids}, [=, this, &w](const Array& diff) {
    add_gradient(name + "/weights", embedding_backward(values_[ids], diff, w.shape));
    return std::vector<Array>{Array(values_[ids].shape)};
  });
}

int Tape::recurrent(int x, ops::CellKind kind, const std::string& name, const Array& state, Array& next_state) {
  const int input = dense(x, name + "_input");
  const Array& w = parameters_.at(name + "/weights");
  const Array b = kind == ops::CellKind::gru ? parameters_.at(name + "/bias") : Array();
  auto result = sequence_forward(kind, values_[input], state, w, b);
  next_state = result.next_state;
  return record(std::move(result.dst), {input}, [=, this, &w](const Array& diff) {
    const auto g = sequence_backward(kind, diff, values_[input], state, w, b);
    add_gradient(name + "/weights", g.weights);
    if (!b.empty()) add_gradient(name + "/bias", g.bias);
    return std::vector<Array>{g.input};
  });
}

int Tape::batch_norm(int x, const std::string& name, double epsilon) {
  const Array &scale = parameters_.at(name + "/scale"), &shift = parameters_.at(name + "/shift");
  const Array weight(Shape{values_[x].shape[0]}, 1.0);
  const auto s = batch_statistics(values_[x], weight);
  return record(oracle::batch_norm(values_[x], s.mean, s.variance, scale, shift, epsilon), {x},
                [=, this, &scale](const Array& diff) {
                  auto g = batch_norm_backward(diff, values_[x], weight, scale, epsilon);
                  add_gradient(name + "/scale", g.scale);
                  add_gradient(name + "/shift", g.shift);
                  return std::vector<Array>{std::move(g.src)};
                });
}

int Tape::pool(int x, const ops::PoolParams& p) {
  return record(pool_forward(values_[x], p), {x},
                [=, this](const Array& diff) { return std::vector<Array>{pool_backward(diff, values_[x], p)}; });
}

int Tape::resize(int x, std::int64_t rows, std::int64_t columns, ops::ResizeGrid grid) {
  return record(resize_forward(values_[x], rows, columns, grid), {x}, [=, this](const Array& diff) {
    return std::vector<Array>{resize_backward(diff, values_[x].shape, grid)};
  });
}

int Tape::eltwise(int x, const ops::EltwiseParams& p) {
  return record(eltwise_forward(values_[x], p), {x},
                [=, this](const Array& diff) { return std::vector<Array>{eltwise_backward(diff, values_[x], p)}; });
}

int Tape::dropout(int x, const std::string& name, float rate, const ops::StepParams& now,
                  std::int64_t rows_per_sample) {
  const ops::DropoutParams p{rate, philox::stream_of(name)};
  return record(oracle::dropout(values_[x], p, now, rows_per_sample), {x},
                [=](const Array& diff) { return std::vector<Array>{oracle::dropout(diff, p, now, rows_per_sample)}; });
}

int Tape::add(int a, int b) {
  return record(sum({values_[a], values_[b]}), {a, b},
                [](const Array& diff) { return std::vector<Array>{diff, diff}; });
}

int Tape::concat(const std::vector<int>& xs, int axis) {
  std::vector<Array> srcs;
  std::vector<Shape> shapes;
  for (int x : xs) {
    srcs.push_back(values_[x]);
    shapes.push_back(values_[x].shape);
  }
  return record(oracle::concat(srcs, axis), xs, [=](const Array& diff) { return concat_backward(diff, shapes, axis); });
}

int Tape::softmax(int x, int axis) {
  const Array y = softmax_forward(values_[x], axis);
  return record(y, {x}, [=](const Array& diff) { return std::vector<Array>{softmax_backward(diff, y, axis)}; });
}

int Tape::flatten_channels_last(int x, std::int64_t features) {
  const Shape logical = values_[x].shape;
  Array flat = reshape(move_channels(values_[x], logical, true), {logical.elements() / features, features});
  return record(std::move(flat), {x}, [=](const Array& diff) {
    return std::vector<Array>{reshape(move_channels(diff, logical, false), logical)};
  });
}

int Tape::flatten(int x) {
  const Shape logical = values_[x].shape;
  return record(reshape(values_[x], {logical[0], logical.elements() / logical[0]}), {x},
                [=](const Array& diff) { return std::vector<Array>{reshape(diff, logical)}; });
}

void Tape::run_backwards(int from, Array diff) {
  diffs_.assign(values_.size(), {});
  diffs_[from] = std::move(diff);
  for (int v = from; v >= 0; --v) {
    if (diffs_[v].empty() || !steps_[v].backward) continue;
    const auto parts = steps_[v].backward(diffs_[v]);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      Array& into = diffs_[steps_[v].srcs[i]];
      into = into.empty() ? parts[i] : sum({into, parts[i]});
    }
  }
}

double Tape::loss(int prediction, const Array& target, const Array& weight, const ops::LossParams& p,
                  const ops::StepParams& now, std::int64_t rows_per_sample) {
  run_backwards(prediction, loss_backward(values_[prediction], target, weight, p, now, rows_per_sample));
  return loss_forward(values_[prediction], target, weight, p, now, rows_per_sample);
}

double Tape::pixel_loss(int prediction, const Array& target, const ops::PixelLossParams& p,
                        const ops::StepParams& now) {
  const Array& x = values_[prediction];
  auto result = oracle::pixel_loss(x, target, Array({x.shape[0]}, 1.0), {p, TensorDesc::plain(x.shape), true}, now);
  run_backwards(prediction, std::move(result.diff));
  return result.loss;
}

}  // namespace keelson::oracle
