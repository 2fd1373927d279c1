#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/ops/conv_cases.hpp"
#include "tests/ops/transposed_conv_cases.hpp"
#include "tests/oracle/ops.hpp"
#include "tests/oracle/tape.hpp"
#include "tests/support/compare.hpp"

/// The oracle's gradients against central differences of its own forward functions, in float64: what makes it fit to
/// judge others.
namespace keelson::testing {
namespace {

using oracle::differences;
using oracle::random_distinct;
using oracle::random_uniform;

constexpr Tolerance by_differences{1e-7, 1e-7};

TEST(OracleGradient, Convolution) {
  for (const auto& c : conv_cases()) {
    if (c.src.elements() + c.weights().elements() > 1500) continue;  // the same code, only slower
    auto p = c.params;
    p.activation = {};
    const Array x = random_uniform(c.src, "x"), w = random_uniform(c.weights(), "w");
    const Array b = p.bias ? random_uniform({c.filters}, "b") : Array();
    const Array r = random_uniform(oracle::conv_shape(c.src, c.weights(), p), "r");
    const auto f = [&](const Array& src, const Array& weights, const Array& bias) {
      return oracle::dot(oracle::conv_forward(src, weights, bias, p), r);
    };
    EXPECT_TRUE(close(oracle::conv_backward_data(r, w, c.src, p), differences([&](auto& v) { return f(v, w, b); }, x),
                      c.name + " src", by_differences));
    EXPECT_TRUE(close(oracle::conv_backward_weights(x, r, c.weights(), p),
                      differences([&](auto& v) { return f(x, v, b); }, w), c.name + " weights", by_differences));
    if (p.bias) {
      EXPECT_TRUE(close(oracle::backward_bias(r), differences([&](auto& v) { return f(x, w, v); }, b), c.name + " bias",
                        by_differences));
    }
  }
}

// An answer worked out by hand, so that the forward function has a judge of its own.
TEST(OracleConvolution, ByHand) {
  ops::ConvParams p;
  p.kernel = {1, 2};
  p.stride = {1, 2};
  p.dilation = {1, 1};
  p.pad_begin = {0, 1};
  p.pad_end = {0, 0};
  const Array x({1, 1, 1, 4}, {1, 2, 3, 4}), w({1, 1, 1, 2}, {10, 1}), b(Shape{1}, 0.5);
  // Windows (0 1), (2 3): cross-correlation, the kernel is not turned round.
  EXPECT_TRUE(close(oracle::conv_forward(x, w, b, p), Array({1, 1, 1, 2}, {1.5, 23.5}), "conv", exact));
  p.groups = 2;
  const Array x2({1, 2, 1, 1}, {3, 5}), w2({2, 1, 1, 1}, {2, 7});
  p.kernel = {1, 1};
  p.stride = {1, 1};
  p.pad_begin = {0, 0};
  EXPECT_TRUE(close(oracle::conv_forward(x2, w2, {}, p), Array({1, 2, 1, 1}, {6, 35}), "groups", exact));
}

TEST(OracleGradient, TransposedConvolution) {
  for (const auto& c : transposed_conv_cases()) {
    if (c.src.elements() + c.weights().elements() > 1500) continue;  // the same code, only slower
    auto p = c.params;
    p.activation = {};
    const Array x = random_uniform(c.src, "x"), w = random_uniform(c.weights(), "w"), r = random_uniform(c.dst(), "r");
    const auto f = [&](const Array& src, const Array& weights) {
      return oracle::dot(oracle::transposed_conv_forward(src, weights, {}, p), r);
    };
    EXPECT_TRUE(close(oracle::transposed_conv_backward_data(r, w, c.src, p),
                      differences([&](auto& v) { return f(v, w); }, x), c.name + " src", by_differences));
    EXPECT_TRUE(close(oracle::transposed_conv_backward_weights(x, r, c.weights(), p),
                      differences([&](auto& v) { return f(x, v); }, w), c.name + " weights", by_differences));
  }
}

// Two elements with stride 2 and a kernel of 3: 1 at places 0 to 2, 10 at places 2 to 4, in the two conventions.
TEST(OracleTransposedConvolution, ByHand) {
  ops::TransposedConvParams p;
  p.kernel = {1, 3};
  p.stride = {1, 2};
  p.dilation = {1, 1};
  p.pad_begin = {0, 1};
  p.pad_end = {0, 1};
  p.output_padding = {0, 1};
  const Array x({1, 1, 1, 2}, {1, 10}), w({1, 1, 1, 3}, {2, 3, 4}), b(Shape{1}, 0.5);
  EXPECT_TRUE(close(oracle::transposed_conv_forward(x, w, b, p), Array({1, 1, 1, 4}, {3.5, 24.5, 30.5, 40.5}),
                    "out[2i + k - 1] += x[i] w[k]", exact));
  p.pad_begin = {0, 0};
  p.output_padding = {0, 0};
  EXPECT_TRUE(close(oracle::transposed_conv_forward(x, w, b, p), Array({1, 1, 1, 4}, {2.5, 3.5, 24.5, 30.5}),
                    "out[2i + k] += x[i] w[k], the last one cut off", exact));
  p.groups = 2;
  p.kernel = p.stride = {1, 1};
  p.pad_end = {0, 0};
  const Array x2({1, 2, 1, 1}, {3, 5}), w2({2, 2, 1, 1}, {2, 7, 1, 4});
  EXPECT_TRUE(
      close(oracle::transposed_conv_forward(x2, w2, {}, p), Array({1, 4, 1, 1}, {6, 21, 5, 20}), "groups", exact));
}

TEST(OraclePool, ByHand) {
  const Array x({1, 1, 1, 5}, {4, 4, 1, 2, 9}), dy({1, 1, 1, 3}, {10, 20, 30});
  ops::PoolParams p{ops::PoolKind::max, {1, 2}, {1, 2}, {0, 1}, {0, 0}};
  EXPECT_TRUE(close(oracle::pool_forward(x, p), Array({1, 1, 1, 3}, {4, 4, 9}), "max", exact));
  EXPECT_TRUE(close(oracle::pool_backward(dy, x, p), Array({1, 1, 1, 5}, {10, 20, 0, 0, 30}), "max backward", exact));
  p.kind = ops::PoolKind::average;
  EXPECT_TRUE(close(oracle::pool_forward(x, p), Array({1, 1, 1, 3}, {4, 2.5, 5.5}), "average", exact));
  p.count_padding = true;
  EXPECT_TRUE(close(oracle::pool_forward(x, p), Array({1, 1, 1, 3}, {2, 2.5, 5.5}), "average with padding", exact));
}

// {1, 2, 4} as five elements, by the formulas of engine/ops/resize.hpp.
TEST(OracleResize, ByHand) {
  const Array x({1, 1, 1, 3}, {1, 2, 4});
  const auto resized = [&](ops::ResizeGrid grid) { return oracle::resize_forward(x, 1, 5, grid); };
  const Shape five{1, 1, 1, 5};
  EXPECT_TRUE(close(resized(ops::ResizeGrid::asymmetric), Array(five, {1, 1.6, 2.4, 3.6, 4}), "asymmetric"));
  EXPECT_TRUE(close(resized(ops::ResizeGrid::half_pixel), Array(five, {1, 1.4, 2, 3.2, 4}), "half-pixel"));
  EXPECT_TRUE(close(resized(ops::ResizeGrid::align_corners), Array(five, {1, 1.5, 2, 3, 4}), "align corners"));
}

TEST(OracleGradient, Resize) {
  const Array x = random_uniform({1, 2, 3, 5}, "x"), r = random_uniform({1, 2, 4, 7}, "r");
  for (const auto grid : {ops::ResizeGrid::asymmetric, ops::ResizeGrid::half_pixel, ops::ResizeGrid::align_corners})
    EXPECT_TRUE(close(oracle::resize_backward(r, x.shape, grid),
                      differences([&](auto& v) { return oracle::dot(oracle::resize_forward(v, 4, 7, grid), r); }, x),
                      "resize", by_differences));
}

TEST(OracleGradient, Dense) {
  const Array x = random_uniform({3, 7}, "x"), w = random_uniform({5, 7}, "w"), b = random_uniform({5}, "b"),
              r = random_uniform({3, 5}, "r");
  const auto f = [&](const Array& src, const Array& weights, const Array& bias) {
    return oracle::dot(oracle::dense_forward(src, weights, bias, {}), r);
  };
  EXPECT_TRUE(close(oracle::dense_backward_data(r, w), differences([&](auto& v) { return f(v, w, b); }, x), "src",
                    by_differences));
  EXPECT_TRUE(close(oracle::dense_backward_weights(x, r), differences([&](auto& v) { return f(x, v, b); }, w),
                    "weights", by_differences));
  EXPECT_TRUE(
      close(oracle::backward_bias(r), differences([&](auto& v) { return f(x, w, v); }, b), "bias", by_differences));
}

TEST(OracleGradient, Pooling) {
  for (const auto kind : {ops::PoolKind::max, ops::PoolKind::average})
    for (const bool count_padding : {false, true}) {
      const ops::PoolParams p{kind, {3, 2, 2}, {2, 1, 2}, {1, 0, 1}, {1, 1, 0}, count_padding};
      const Array x = random_distinct({2, 2, 4, 3, 5}, "x"), r = random_uniform(oracle::pool_shape(x.shape, p), "r");
      EXPECT_TRUE(close(oracle::pool_backward(r, x, p),
                        differences([&](auto& v) { return oracle::dot(oracle::pool_forward(v, p), r); }, x), "pool",
                        by_differences));
    }
}

TEST(OracleGradient, Eltwise) {
  using ops::EltwiseKind;
  const Array x = random_distinct({40}, "x"),
              r = random_uniform({40}, "r");  // spaced by 0.05; 0 itself is tested by hand
  for (const ops::EltwiseParams p : {ops::EltwiseParams{EltwiseKind::identity, 0, 0},
                                     {EltwiseKind::relu, 0, 0},
                                     {EltwiseKind::leaky_relu, 0.3f, 0},
                                     {EltwiseKind::tanh, 0, 0},
                                     {EltwiseKind::sigmoid, 0, 0},
                                     {EltwiseKind::gelu, 0, 0},
                                     {EltwiseKind::silu, 0, 0},
                                     {EltwiseKind::elu, 0.7f, 0},
                                     {EltwiseKind::softplus, 0, 0},
                                     {EltwiseKind::linear, -1.5f, 0.5f},
                                     {EltwiseKind::abs},
                                     {EltwiseKind::exp},
                                     {EltwiseKind::log},
                                     {EltwiseKind::power, 2},
                                     {EltwiseKind::power, 3},
                                     {EltwiseKind::power, -0.5f}}) {
    const bool positive = p.kind == EltwiseKind::log || (p.kind == EltwiseKind::power && p.alpha < 0);
    Array away = x;
    for (auto& v : away.data) v = positive ? 0.5 + std::abs(v) : 4 * v + 0.01;
    EXPECT_TRUE(close(oracle::eltwise_backward(r, away, p),
                      differences([&](auto& v) { return oracle::dot(oracle::eltwise_forward(v, p), r); }, away),
                      to_string(p), by_differences));
  }
}

TEST(OracleEltwise, ByHand) {
  const Array x(Shape{3}, {-2, 0, 3}), ones(Shape{3}, 1.0);
  const ops::EltwiseParams leaky{ops::EltwiseKind::leaky_relu, 0.25f, 0};
  EXPECT_TRUE(close(oracle::eltwise_forward(x, leaky), Array(Shape{3}, {-0.5, 0, 3}), "leaky", exact));
  EXPECT_TRUE(close(oracle::eltwise_backward(ones, x, leaky), Array(Shape{3}, {0.25, 0.25, 1}), "alpha at 0", exact));
  // Published values: erf(1) = 0.8427007929497149, so gelu(sqrt 2) = (1 + erf 1) / sqrt 2.
  const Array root(Shape{1}, std::sqrt(2.0));
  EXPECT_NEAR(oracle::eltwise_forward(root, {ops::EltwiseKind::gelu, 0, 0})[0],
              (1 + 0.8427007929497149) / std::sqrt(2.0), 1e-14);
  EXPECT_NEAR(oracle::eltwise_forward(ones, {ops::EltwiseKind::silu, 0, 0})[0], 0.7310585786300049, 1e-14);
  EXPECT_NEAR(oracle::eltwise_forward(ones, {ops::EltwiseKind::softplus, 0, 0})[0], 1.3132616875182228, 1e-14);
}

TEST(OracleGradient, Softmax) {
  for (const int axis : {0, 1, 2}) {
    const Array x = random_uniform({3, 4, 2}, "x", -2, 2), r = random_uniform({3, 4, 2}, "r");
    EXPECT_TRUE(close(oracle::softmax_backward(r, oracle::softmax_forward(x, axis), axis),
                      differences([&](auto& v) { return oracle::dot(oracle::softmax_forward(v, axis), r); }, x),
                      "softmax", by_differences));
  }
}

TEST(OracleGradient, Concat) {
  const std::vector<Shape> shapes{{2, 1, 3}, {2, 4, 3}};
  const Array a = random_uniform(shapes[0], "a"), b = random_uniform(shapes[1], "b"),
              r = random_uniform({2, 5, 3}, "r");
  const auto diffs = oracle::concat_backward(r, shapes, 1);
  EXPECT_TRUE(close(diffs[0], differences([&](auto& v) { return oracle::dot(oracle::concat({v, b}, 1), r); }, a),
                    "first", by_differences));
  EXPECT_TRUE(close(diffs[1], differences([&](auto& v) { return oracle::dot(oracle::concat({a, v}, 1), r); }, b),
                    "second", by_differences));
}

TEST(OracleGradient, Dropout) {
  const ops::DropoutParams p{0.4f, 9};
  const ops::StepParams now{.seed = 3, .step = 2};
  const Array x = random_uniform({4, 5}, "x"), r = random_uniform({4, 5}, "r");
  EXPECT_TRUE(close(oracle::dropout(r, p, now),
                    differences([&](auto& v) { return oracle::dot(oracle::dropout(v, p, now), r); }, x), "dropout",
                    by_differences));
}

TEST(OracleGradient, Embedding) {
  const Array ids({2, 3}, {4, 0, 4, 2, 4, 0}), w = random_uniform({5, 3}, "w"), r = random_uniform({6, 3}, "r");
  EXPECT_TRUE(close(oracle::embedding_backward(ids, r, w.shape),
                    differences([&](auto& v) { return oracle::dot(oracle::embedding_forward(ids, v), r); }, w),
                    "embedding", by_differences));
}

constexpr ops::CellKind cells[] = {ops::CellKind::lstm, ops::CellKind::gru};

TEST(OracleGradient, RecurrentCells) {
  constexpr std::int64_t batch = 2, hidden = 3;
  for (const auto kind : cells) {
    const Shape gates{batch, ops::gates_of(kind) * hidden}, state{batch, ops::states_of(kind), hidden};
    const oracle::CellStep s{random_uniform(gates, "x", -2, 2), random_uniform(gates, "u", -2, 2),
                             kind == ops::CellKind::gru ? random_uniform({hidden}, "b") : Array(),
                             random_uniform(state, "s")};
    const Array r = random_uniform(state, "r");
    const auto by = [&](Array oracle::CellStep::* part) {
      const auto f = [&](const Array& v) {
        oracle::CellStep changed = s;
        changed.*part = v;
        return oracle::dot(oracle::cell_forward(kind, changed).next_state, r);
      };
      return differences(f, s.*part);
    };
    const std::string name(to_string(kind));
    const auto g = oracle::cell_backward(kind, s, r);
    EXPECT_TRUE(close(g.input, by(&oracle::CellStep::input), name + " input", by_differences));
    EXPECT_TRUE(close(g.recurrent, by(&oracle::CellStep::recurrent), name + " recurrent", by_differences));
    EXPECT_TRUE(close(g.state, by(&oracle::CellStep::state), name + " state", by_differences));
    if (!s.bias.empty()) {
      EXPECT_TRUE(close(g.bias, by(&oracle::CellStep::bias), name + " bias", by_differences));
    }
  }
}

TEST(OracleGradient, RecurrentLayersThroughTime) {
  constexpr std::int64_t batch = 2, steps = 4, hidden = 3;
  for (const auto kind : cells) {
    const std::int64_t gates = ops::gates_of(kind) * hidden;
    const Array x = random_uniform({batch * steps, gates}, "x"), w = random_uniform({gates, hidden}, "w"),
                s = random_uniform({batch, ops::states_of(kind), hidden}, "s"),
                b = kind == ops::CellKind::gru ? random_uniform({hidden}, "b") : Array(),
                r = random_uniform({batch * steps, hidden}, "r");
    const auto f = [&](const Array& input, const Array& state, const Array& weights, const Array& bias) {
      return oracle::dot(oracle::sequence_forward(kind, input, state, weights, bias).dst, r);
    };
    const std::string name(to_string(kind));
    const auto g = oracle::sequence_backward(kind, r, x, s, w, b);
    EXPECT_TRUE(close(g.input, differences([&](auto& v) { return f(v, s, w, b); }, x), name, by_differences));
    EXPECT_TRUE(close(g.weights, differences([&](auto& v) { return f(x, s, v, b); }, w), name, by_differences));
    EXPECT_TRUE(close(g.state, differences([&](auto& v) { return f(x, v, w, b); }, s), name, by_differences));
    if (!b.empty()) {
      EXPECT_TRUE(close(g.bias, differences([&](auto& v) { return f(x, s, w, v); }, b), name, by_differences));
    }
  }
}

TEST(OracleRecurrence, ByHand) {
  // sigmoid(ln 3) = 3/4, tanh(ln 2) = 3/5, tanh(ln 3) = 4/5.
  const double three = std::log(3.0), two = std::log(2.0);
  const auto lstm = oracle::cell_forward(
      ops::CellKind::lstm,
      {Array({1, 4}, {three, 0, two, 0}), Array({1, 4}, {0, -three, 0, 0}), {}, Array({1, 2, 1}, {7, 4})});
  const double c = 0.25 * 4 + 0.75 * 0.6;
  EXPECT_TRUE(close(lstm.gates, Array({1, 4}, {0.75, 0.25, 0.6, 0.5}), "i, f, g, o", tolerance(DType::f64)));
  EXPECT_TRUE(close(lstm.next_state, Array({1, 2, 1}, {0.5 * std::tanh(c), c}), "h, c", tolerance(DType::f64)));
  const auto gru = oracle::cell_forward(ops::CellKind::gru, {Array({1, 3}, {0, three, 0}), Array({1, 3}, {0, 0, three}),
                                                             Array(Shape{1}, three), Array(Shape{1, 1, 1}, 2)});
  EXPECT_TRUE(close(gru.gates, Array({1, 3}, {0.5, 0.75, 0.8}), "r, z, n", tolerance(DType::f64)));
  EXPECT_TRUE(close(gru.next_state, Array(Shape{1, 1, 1}, 0.25 * 0.8 + 0.75 * 2), "h", tolerance(DType::f64)));
}

/// Weights that an embedding and the output layer share: the gradients of both uses add up.
TEST(OracleGradient, TapeOfALanguageModel) {
  const Array ids({2, 3}, {3, 1, 3, 0, 2, 3}), classes({2, 3}, {1, 3, -1, 2, 0, 1}), ones({2}, {1, 1});
  const ops::StepParams now{.seed = 3, .step = 1, .inverse_samples = 0.5f};
  for (const auto kind : cells) {
    constexpr std::int64_t hidden = 2;
    const std::int64_t gates = ops::gates_of(kind) * hidden;
    std::map<std::string, Array> parameters{{"e/weights", random_uniform({4, hidden}, "e")},
                                            {"r_input/weights", random_uniform({gates, hidden}, "w")},
                                            {"r_input/bias", random_uniform({gates}, "b")},
                                            {"r/weights", random_uniform({gates, hidden}, "u")},
                                            {"out/bias", random_uniform({4}, "ob")}};
    if (kind == ops::CellKind::gru) parameters["r/bias"] = random_uniform({hidden}, "rb");
    const Array state = random_uniform({2, ops::states_of(kind), hidden}, "s");
    const auto loss = [&](oracle::Tape& t) {
      Array next;
      const int v =
          t.recurrent(t.dropout(t.embedding(t.input(ids), "e"), "drop", 0.25f, now, 3), kind, "r", state, next);
      return t.loss(t.dense(v, "out", "e"), classes, ones, {ops::LossKind::cross_entropy, 1, true}, now, 3);
    };
    oracle::Tape tape(parameters);
    loss(tape);
    ASSERT_EQ(tape.gradients().size(), parameters.size());
    for (const auto& [name, values] : parameters) {
      const auto f = [&, &changed_name = name](const Array& v) {
        auto changed = parameters;
        changed[changed_name] = v;
        oracle::Tape t(changed);
        return loss(t);
      };
      EXPECT_TRUE(close(tape.gradients().at(name), differences(f, values), name, by_differences));
    }
  }
}

TEST(OracleGradient, Losses) {
  using ops::LossKind;
  const ops::StepParams now{.inverse_samples = 0.25f};
  for (const ops::LossParams p : {ops::LossParams{LossKind::mse, 1},
                                  {LossKind::mae, 1, true},
                                  {LossKind::huber, 0.5f},
                                  {LossKind::gaussian_nll},
                                  {LossKind::binary_cross_entropy},
                                  {LossKind::mean},
                                  {LossKind::cross_entropy, 1},
                                  {LossKind::cross_entropy, 1, true},
                                  {LossKind::cross_entropy, 1, false, 0.2f}})
    for (const std::int64_t rows : {1, 3}) {
      const Array x = random_uniform({4 * rows, 3 * p.values_per_target()}, "x", -2, 2), weight({4}, {1, 1, 0, 1});
      const Shape classes = p.sum_rows ? Shape{4, rows} : Shape{4};
      const Array t = p.kind == LossKind::cross_entropy          ? oracle::random_integers(classes, "t", -1, 2)
                      : p.kind == LossKind::binary_cross_entropy ? random_uniform({4, 3}, "t", 0, 1)
                                                                 : random_uniform({4, 3}, "t", -2, 2);
      EXPECT_TRUE(close(oracle::loss_backward(x, t, weight, p, now, rows),
                        differences([&](auto& v) { return oracle::loss_forward(v, t, weight, p, now, rows); }, x),
                        std::string(to_string(p.kind)), by_differences));
    }
}

TEST(OracleLoss, ByHand) {
  const ops::StepParams now{.inverse_samples = 0.5f};
  const Array p({2, 2}, {1, 2, 3, 5}), t({2, 2}, {0, 0, 0, 0}), ones({2}, {1, 1}), first({2}, {1, 0});
  EXPECT_DOUBLE_EQ(oracle::loss_forward(p, t, ones, {ops::LossKind::mse, 1}, now), (2.5 + 17) / 2);
  EXPECT_DOUBLE_EQ(oracle::loss_forward(p, t, first, {ops::LossKind::mse, 1}, now), 2.5 / 2);
  EXPECT_DOUBLE_EQ(oracle::loss_forward(p, t, ones, {ops::LossKind::mae, 1}, now), (1.5 + 4) / 2);
  EXPECT_DOUBLE_EQ(oracle::loss_forward(p, t, first, {ops::LossKind::huber, 1.5f}, now), (0.5 + 1.875) / 2 / 2);
  const Array even({1, 4}, {7, 7, 7, 7}), label(Shape{1}, 2.0), one(Shape{1}, 1.0);
  EXPECT_DOUBLE_EQ(oracle::loss_forward(even, label, one, {ops::LossKind::cross_entropy, 1}, {.inverse_samples = 1}),
                   std::log(4.0));
  // Two rows of a sample, one of which does not count: their mean is half their sum.
  const Array rows({2, 2}, {3, 3, 1, 9}), labels({1, 2}, {1, -1});
  EXPECT_DOUBLE_EQ(
      oracle::loss_forward(rows, labels, one, {ops::LossKind::cross_entropy, 1}, {.inverse_samples = 1}, 2),
      std::log(2.0) / 2);
  EXPECT_DOUBLE_EQ(
      oracle::loss_forward(rows, labels, one, {ops::LossKind::cross_entropy, 1, true}, {.inverse_samples = 1}, 2),
      std::log(2.0));
}

TEST(OracleUpdate, ByHand) {
  const ops::StepParams now{.step = 0, .learning_rate = 0.5f};
  const Array w(Shape{1}, 2.0), g(Shape{1}, 4.0), zero(Shape{1});
  const auto step = [&](const ops::UpdateParams& p, oracle::OptimizerState s) {
    return oracle::update(std::move(s), g, p, now, 16);
  };
  using K = ops::UpdateKind;
  EXPECT_DOUBLE_EQ(step({.kind = K::sgd}, {w, {}, {}}).param[0], 2 - 0.5 * 4);
  EXPECT_DOUBLE_EQ(step({.kind = K::sgd, .weight_decay = 0.5f}, {w, {}, {}}).param[0], 2 - 0.5 * 5);
  EXPECT_DOUBLE_EQ(step({.kind = K::sgd, .momentum = 0.5f}, {w, Array(Shape{1}, 2.0), {}}).param[0], 2 - 0.5 * 5);
  EXPECT_DOUBLE_EQ(step({.kind = K::sgd, .momentum = 0.5f, .nesterov = true}, {w, Array(Shape{1}, 2.0), {}}).param[0],
                   2 - 0.5 * 6.5);
  EXPECT_DOUBLE_EQ(step({.kind = K::sgd, .clip_norm = 1}, {w, {}, {}}).param[0], 2 - 0.5 * 1);
  EXPECT_DOUBLE_EQ(step({.kind = K::sgd, .larc = ops::LarcMode::scale, .larc_eta = 0.5f}, {w, {}, {}}).param[0],
                   2 - 0.5 * 0.25 * 4);
  // r / lr = 0.5: relative; r > 1 is clipped.
  EXPECT_DOUBLE_EQ(
      step({.kind = K::sgd, .larc = ops::LarcMode::clip, .larc_eta = 0.5f, .larc_relative = true}, {w, {}, {}})
          .param[0],
      2 - 0.5 * 0.5 * 4);
  EXPECT_DOUBLE_EQ(step({.kind = K::sgd, .larc = ops::LarcMode::clip, .larc_eta = 4}, {w, {}, {}}).param[0],
                   2 - 0.5 * 4);
  // The first step of Adam goes by the learning rate whatever the gradient's size (epsilon aside); AdamW first shrinks
  // w.
  EXPECT_NEAR(step({.kind = K::adam}, {w, zero, zero}).param[0], 1.5, 1e-8);
  EXPECT_NEAR(step({.kind = K::adam, .decoupled_decay = 0.25f}, {w, zero, zero}).param[0], 2 - 0.5 * 0.25 * 2 - 0.5,
              1e-8);
}

}  // namespace
}  // namespace keelson::testing
