#include "nets/tiramisu/tiramisu.hpp"

#include "engine/layers/layers.hpp"
#include "nets/image_size.hpp"

namespace keelson::nets {

namespace {

void check(const TiramisuOptions& o) {
  if (o.layers.size() < 2 || o.layers.size() > 16)
    refuse("Tiramisu with {} blocks on the way down: expected 2 to 16", o.layers.size());
  for (const int n : o.layers)
    if (n < 1) refuse("a block of Tiramisu with {} layers: expected at least 1", n);
  require_image_size("Tiramisu", o.rows, o.columns, std::int64_t{1} << (o.layers.size() - 1));
}

class TiramisuBuilder {
 public:
  explicit TiramisuBuilder(const TiramisuOptions& options) : o_(options) {}

  /// Convolution, ReLU and dropout.
  Var layer(Var x, std::int64_t filters, std::int64_t kernel, std::int64_t stride, const std::string& name) const {
    x = relu(conv(x, {.filters = filters, .size = kernel, .stride = stride, .weights_init = Init::he_uniform()}, name));
    return dropout(x, o_.dropout, name + "_dropout");
  }

  Var transition(Var x, int block) const {
    return layer(x, x.shape().shape[1], 1, 2, fmt::format("transition{}", block));
  }

  /// The input of a block's last layer, and the maps that all layers of the block made.
  struct Block {
    Var before;
    std::vector<Var> made;
    Var all() const { return concat({before, made.back()}); }
    Var added() const { return made.size() == 1 ? made[0] : concat(made); }
  };
  Block dense_block(Var x, int layers, const std::string& name) const {
    Block b{x, {}};
    for (int i = 1; i <= layers; ++i) {
      if (i > 1) b.before = b.all();
      b.made.push_back(layer(b.before, o_.growth, o_.kernel, 1, fmt::format("{}_conv{}", name, i)));
    }
    return b;
  }

 private:
  const TiramisuOptions& o_;
};

}  // namespace

Graph tiramisu(const TiramisuOptions& o) {
  check(o);
  const TiramisuBuilder build(o);
  const int last = static_cast<int>(o.layers.size()) - 1;
  Graph g;
  Var x = g.input("x", {o.channels, o.rows, o.columns});
  const Var y = g.input("y", {o.rows, o.columns}, DType::s32);
  x = build.layer(x, o.first, o.kernel, 1, "input");
  std::vector<Var> skips;
  TiramisuBuilder::Block block;
  for (int i = 0; i <= last; ++i) {
    block = build.dense_block(x, o.layers[static_cast<std::size_t>(i)], fmt::format("down{}", i));
    if (i == last) break;
    skips.push_back(block.all());
    x = build.transition(skips.back(), i);
  }
  for (int i = 0; i < last; ++i) {
    const auto name = fmt::format("up{}", i);
    const auto level = static_cast<std::size_t>(last - 1 - i);
    const Var added = block.added();
    const Var up = transposed_conv(
        added, {.filters = added.shape().shape[1], .stride = 2, .weights_init = Init::he_uniform()}, name + "_deconv");
    block = build.dense_block(concat({up, skips[level]}), o.layers[level], name);
  }
  x = conv(block.all(), {.filters = o.classes, .size = 1, .weights_init = Init::he_uniform()}, "output");
  if (o.dropout_on_logits) x = dropout(x, o.dropout, "output_dropout");
  g.set_output("prediction", x);
  pixel_cross_entropy(x, y, o.loss);
  return g;
}

}  // namespace keelson::nets
