#include "tests/support/networks.hpp"

#include <cmath>

#include "engine/layers/layers.hpp"
#include "tests/support/tensors.hpp"

namespace keelson::testing {

void set_input(Context& context, const Executor& executor, const std::string& name, const Array& logical) {
  const Tensor t = executor.input(name);
  KEELSON_EXPECT(t.elements() == logical.elements());
  if (t.dtype() == DType::s32) {
    std::vector<std::int32_t> classes(logical.data.begin(), logical.data.end());
    context.device().copy_from_host(t.raw(), classes.data(), t.bytes());
    return;
  }
  const std::vector<float> values(logical.data.begin(), logical.data.end());
  context.write_plain(t, values.data());
}

Array get_output(Context& context, const Executor& executor, const std::string& name) {
  return get(context, executor.output(name));
}

TrainedSteps train_steps(Context& context, Executor& executor, const Parameters& parameters, int steps) {
  TrainedSteps o;
  for (int i = 0; i < steps; ++i) {
    fill_inputs(context, executor, i);
    executor.forward(
        {.seed = 3, .step = static_cast<std::uint64_t>(i), .inverse_samples = 0.5f, .learning_rate = 0.05f});
    executor.backward();
    executor.update();
    executor.carry_states();
    executor.start_readback();
    o.losses.push_back(executor.take_readback().loss);
  }
  for (const auto& p : parameters.all()) {
    const auto values = parameters.get(p);
    o.parameters.insert(o.parameters.end(), values.begin(), values.end());
  }
  return o;
}

std::map<std::string, Array> plain_parameters(const Parameters& parameters) {
  std::map<std::string, Array> all;
  for (const Parameter& p : parameters.all()) {
    const auto values = parameters.get(p);
    all[p.name] = Array(p.shape, std::vector<double>(values.begin(), values.end()));
  }
  return all;
}

double relative_error(const Array& got, const Array& want) {
  KEELSON_EXPECT(got.elements() == want.elements());
  double error = 0, norm = 0;
  for (std::int64_t i = 0; i < want.elements(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return norm > 0 ? std::sqrt(error / norm) : std::sqrt(error);
}

Graph volumes() {
  Graph g;
  const Var x = g.input("x", {3, 8, 8, 8}), y = g.input("y", {4});
  Var h = max_pool(leaky_relu(conv(x, {.filters = 8}, "conv1"), 0.3f), 2);
  const Var a = conv(h, {.filters = 8}, "conv2");
  h = max_pool(relu(add({a, h})), 2);
  h = dropout(leaky_relu(dense(flatten(h, ElementOrder::channels_last), 16, "dense1"), 0.3f), 0.25f, "drop");
  g.set_output("prediction", scale(tanh(dense(h, 4, "dense2")), 1.2f, 0));
  mse(Var{&g, g.outputs()[0].second}, y);
  return g;
}

Graph words() {
  Graph g;
  const Var x = g.input("x", {5}, DType::s32), y = g.input("y", {5}, DType::s32);
  const Var h = dropout(lstm(embedding(x, {12, 8}, "embedding"), {.hidden = 8, .layers = 2}, "lstm"), 0.25f, "drop");
  const Var logits = dense(h, 12, "output");
  g.set_output("logits", logits);
  loss(logits, y, {.kind = ops::LossKind::cross_entropy, .sum_rows = true});
  return g;
}

void fill_inputs(Context& context, const Executor& executor, int step) {
  for (const char* name : {"x", "y"}) {
    const Tensor t = executor.input(name);
    if (t.dtype() != DType::s32) {
      set_input(context, executor, name, oracle::random_uniform(t.shape(), fmt::format("{}{}", name, step), -1, 1));
      continue;
    }
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < t.elements(); ++i) ids.push_back(static_cast<std::int32_t>((i * i + step) % 12));
    context.device().copy_from_host(t.raw(), ids.data(), t.bytes());
  }
}

}  // namespace keelson::testing
