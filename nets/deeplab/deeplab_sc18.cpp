#include "nets/deeplab/deeplab_sc18.hpp"

#include <cmath>

#include "engine/layers/layers.hpp"
#include "nets/image_size.hpp"

namespace keelson::nets {

namespace {

class Sc18Builder {
 public:
  explicit Sc18Builder(const DeepLabSc18Options& options) : o_(options) {}

  std::int64_t width(std::int64_t published) const {
    return std::max<std::int64_t>(1, std::llround(o_.width_multiplier * static_cast<double>(published)));
  }
  /// Convolution with bias, without activation.
  Var linear(Var x, std::int64_t filters, std::int64_t kernel, const std::string& name,
             Init init = Init::he_truncated_normal()) const {
    return conv(x, {.filters = filters, .size = kernel, .weights_init = init}, name);
  }
  Var normalized(Var x, const std::string& name) const {
    if (!o_.batch_norm) return scale(x, 0.5f);
    return batch_norm(x, {.momentum = 0.0003f, .ranks = o_.batch_norm_ranks}, name + "_norm");
  }
  /// The unit C of the header: padding on both sides, also with a stride.
  Var unit(Var x, std::int64_t published, std::int64_t kernel, const std::string& name, std::int64_t stride = 1,
           std::int64_t dilation = 1) const {
    const std::int64_t pad = dilation * (kernel - 1) / 2;
    x = conv(x,
             {.filters = width(published),
              .size = kernel,
              .stride = stride,
              .padding = Padding::given,
              .dilation = dilation,
              .bias = false,
              .pad_begin = {pad, pad},
              .weights_init = Init::he_truncated_normal()},
             name);
    return relu(normalized(x, name));
  }
  Var deconv(Var x, const std::string& name) const {
    return transposed_conv(x, {.filters = width(256), .stride = 2, .weights_init = Init::he_uniform()}, name);
  }

  /// The result of a unit, and the result of its first convolution.
  struct Unit {
    Var sum, reduced;
  };
  Unit bottleneck(Var x, std::int64_t base, std::int64_t stride, std::int64_t dilation, const std::string& name) const {
    Var p = normalized(x, name);
    if (o_.batch_norm) p = relu(p);
    const std::int64_t filters = width(4 * base);
    Var shortcut = x;
    if (x.shape().shape[1] != filters)
      shortcut = linear(p, filters, 1, name + "_shortcut");
    else if (stride > 1)
      shortcut = max_pool(x, {.size = 1, .stride = stride});
    const Var reduced = unit(p, base, 1, name + "_conv1");
    const Var v = unit(reduced, base, 3, name + "_conv2", stride, dilation);
    return {shortcut + linear(v, filters, 1, name + "_conv3"), reduced};
  }

 private:
  const DeepLabSc18Options& o_;
};

Var resized_like(Var x, Var like) {
  return resize(x,
                {.rows = like.shape().shape[2], .columns = like.shape().shape[3], .grid = ops::ResizeGrid::asymmetric});
}

}  // namespace

Graph deeplab_sc18(const DeepLabSc18Options& o) {
  if (o.units.size() != 4 || std::ranges::any_of(o.units, [](int n) { return n < 1; }))
    refuse("DeepLabv3+ has four blocks of at least one unit each, as {{3, 4, 6, 3}}; found {} blocks", o.units.size());
  if (!(o.width_multiplier > 0 && o.width_multiplier <= 16))
    refuse("DeepLabv3+ with a width multiplier of {}: expected more than 0 and at most 16", o.width_multiplier);
  require_image_size("DeepLabv3+", o.rows, o.columns, 8);
  const Sc18Builder build(o);
  Graph g;
  const Var input = g.input("x", {o.channels, o.rows, o.columns});
  const Var y = g.input("y", {o.rows, o.columns}, DType::s32);

  Var x = conv(input,
               {.filters = build.width(64),
                .size = 7,
                .stride = 2,
                .padding = Padding::given,
                .pad_begin = {3, 3},
                .weights_init = Init::he_truncated_normal()},
               "stem");
  x = max_pool(x, {.size = 3, .stride = 2, .pad_begin = {0, 0}, .pad_end = {1, 1}});
  Var low{};
  for (int b = 0; b < 4; ++b)
    for (int i = 0, last = o.units[static_cast<std::size_t>(b)] - 1; i <= last; ++i) {
      const bool strided = b == 0 && i == last;
      const auto unit = build.bottleneck(x, 64 << b, strided ? 2 : 1, b < 2 ? 1 : 2 << (b - 2),
                                         fmt::format("block{}_unit{}", b + 1, i + 1));
      x = unit.sum;
      if (strided) low = unit.reduced;
    }

  std::vector<Var> branches{build.unit(x, 256, 1, "aspp1")};
  for (int i = 1; i <= 3; ++i) branches.push_back(build.unit(x, 256, 3, fmt::format("aspp{}", i + 1), 1, 12 * i));
  branches.push_back(resized_like(build.unit(global_average_pool(x), 256, 1, "aspp_mean"), x));
  x = build.unit(concat(branches), 256, 1, "aspp");

  low = build.unit(low, 48, 1, "low_level");
  const bool bilinear = o.decoder == DeepLabDecoder::bilinear;
  x = bilinear ? resized_like(x, low) : build.deconv(x, "decoder_deconv1");
  x = build.unit(concat({x, low}), 256, 3, "decoder_conv1");
  x = build.unit(x, 256, 3, "decoder_conv2");
  if (!bilinear) x = build.deconv(build.deconv(x, "decoder_deconv2"), "decoder_deconv3");
  if (o.decoder == DeepLabDecoder::deconv1x) {
    const Init uniform = Init::he_uniform();
    const Var skip =
        build.linear(build.linear(input, build.width(64), 3, "skip1", uniform), build.width(128), 3, "skip2", uniform);
    x = build.linear(concat({x, skip}), build.width(256), 3, "full1", uniform);
    x = build.linear(x, build.width(256), 3, "full2", uniform);
  }
  x = build.linear(x, o.classes, 1, "logits");
  if (bilinear) x = resized_like(x, input);
  g.set_output("prediction", x);
  pixel_cross_entropy(x, y, o.loss);
  return g;
}

}  // namespace keelson::nets
