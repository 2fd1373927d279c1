#include "tests/support/random_graph.hpp"

#include "engine/base/philox.hpp"
#include "engine/layers/layers.hpp"

namespace keelson::testing {

namespace {

class RandomNetwork {
 public:
  explicit RandomNetwork(std::uint64_t seed) : key_{seed, 11, 0} {}

  Graph make() {
    if (draw(3) == 0)
      sequences();
    else
      images();
    return std::move(g_);
  }

 private:
  /// 0 to count - 1.
  std::int64_t draw(std::int64_t count) {
    return static_cast<std::int64_t>(philox::uniform(key_, drawn_++) * static_cast<float>(count));
  }
  std::int64_t between(std::int64_t least, std::int64_t most) { return least + draw(most - least + 1); }
  bool coin() { return draw(2) == 0; }

  Var activation(Var x) {
    switch (draw(9)) {
      case 0:
        return relu(x);
      case 1:
        return leaky_relu(x, 0.2f);
      case 2:
        return tanh(x);
      case 3:
        return sigmoid(x);
      case 4:
        return gelu(x);
      case 5:
        return silu(x);
      case 6:
        return elu(x);
      case 7:
        return softplus(x);
      default:
        return scale(x, 0.8f, 0.1f);
    }
  }

  static std::int64_t channels(Var x) { return x.shape().shape[1]; }
  static std::int64_t rows(Var x) { return x.shape().shape[2]; }

  Var image_conv(Var x, std::int64_t filters, std::int64_t stride = 1, std::int64_t groups = 1) {
    return conv(x, {.filters = filters, .size = coin() ? 3 : 1, .stride = stride, .groups = groups, .bias = coin()});
  }

  Var residual(Var x) {
    Var inner = activation(image_conv(x, between(2, 7)));
    if (coin()) inner = batch_norm(inner, {.epsilon = 0.1f});
    return add({image_conv(inner, channels(x)), x});
  }

  Var branches(Var x) {
    std::vector<Var> parts{image_conv(x, between(2, 5)), activation(image_conv(x, between(2, 5)))};
    if (coin()) parts.push_back(x);
    Var all = concat(parts);
    if (coin()) all = add({all, image_conv(x, channels(all))});
    return all;
  }

  Var in_groups(Var x) {
    if (coin()) return conv(x, {.filters = channels(x) * between(1, 2), .groups = channels(x), .bias = coin()});
    const Var even = image_conv(x, 2 * between(1, 3));
    const std::int64_t groups = coin() ? 2 : channels(even) / 2;
    return image_conv(even, groups * between(1, 3), 1, groups);
  }

  Var image_layer(Var x) {
    switch (draw(9)) {
      case 0:
        return image_conv(x, between(2, 8), rows(x) > 3 && coin() ? 2 : 1);
      case 1:
        return residual(x);
      case 2:
        return branches(x);
      case 3:
        return in_groups(x);
      case 4:
        return batch_norm(x, {.epsilon = 0.1f});
      case 5:
        return rows(x) > 3 ? coin() ? max_pool(x, 2) : average_pool(x, 2) : residual(x);
      case 6:
        return rows(x) < 5 ? transposed_conv(x, {.filters = between(2, 5), .size = 2, .stride = 2})
                           : activation(image_conv(x, between(2, 8)));
      case 7:
        return rows(x) < 5 ? resize(x, {.rows = 5, .columns = 4}) : residual(x);
      default:
        return activation(x);
    }
  }

  void images() {
    Var x = g_.input("x", {between(1, 3), between(4, 7), between(4, 7)});
    x = image_conv(x, between(2, 8));
    for (std::int64_t layers = between(2, 7); layers > 0; --layers) x = image_layer(x);
    switch (draw(4)) {
      case 0:
        x = flatten(global_average_pool(x));
        break;
      case 1:
        x = flatten(x, ElementOrder::channels_last);
        break;
      case 2: {
        const Shape s = x.shape().shape;
        x = flatten(reshape(x, {s[1], s[2] * s[3], 1}), ElementOrder::channels_last);
        break;
      }
      default:
        x = flatten(x);
    }
    head(x);
  }

  void sequences() {
    const std::int64_t steps = between(1, 4), entries = between(4, 9), width = between(2, 7);
    Var x = embedding(g_.input("x", {steps}, DType::s32), {.entries = entries, .features = width}, "embedding");
    if (coin()) x = activation(dense(x, between(2, 7)));
    const RecurrentOptions options{
        .hidden = between(2, 7), .layers = static_cast<int>(between(1, 2)), .carries_state = coin()};
    const Var before = x;
    x = coin() ? lstm(x, options, "cell") : gru(x, options, "cell");
    if (draw(4) == 0) x = rms_norm(x, 0.1f);
    if (draw(3) == 0) x = add({x, dense(before, options.hidden)});
    if (draw(3) == 0) x = concat({x, before});
    if (coin()) return head(last_step(x));
    if (coin()) {
      x = dense(x, {.features = width}, "to_embedding");
      x = dense(x, {.features = entries, .weights_of = "embedding"}, "output");
    } else {
      x = dense(x, entries, "output");
    }
    g_.set_output("prediction", x);
    cross_entropy(x, g_.input("y", {steps}, DType::s32));
  }

  void head(Var x) {
    for (std::int64_t layers = between(0, 2); layers > 0; --layers) {
      x = activation(dense(x, {.features = between(2, 9), .bias = coin()}));
      if (draw(4) == 0) x = batch_norm(x, {.epsilon = 0.1f});
    }
    const std::int64_t targets = between(2, 4);
    const Var out = dense(x, targets, "output");
    g_.set_output("prediction", out);
    switch (draw(4)) {
      case 0:
        mse(out, g_.input("y", {targets}));
        break;
      case 1:
        huber(out, g_.input("y", {targets}));
        break;
      case 2:
        gaussian_nll(out, dense(x, targets, "spread"), g_.input("y", {targets}));
        break;
      default:
        cross_entropy(out, g_.input("y", {}, DType::s32));
    }
  }

  philox::Key key_;
  std::uint64_t drawn_ = 0;
  Graph g_;
};

}  // namespace

Graph random_graph(std::uint64_t seed) { return RandomNetwork(seed).make(); }

}  // namespace keelson::testing
