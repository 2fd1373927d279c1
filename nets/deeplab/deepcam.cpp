#include "nets/deeplab/deepcam.hpp"

#include <cmath>

#include "engine/layers/layers.hpp"
#include "nets/image_size.hpp"

namespace keelson::nets {

namespace {

class DeepCamBuilder {
 public:
  explicit DeepCamBuilder(const DeepCamOptions& options) : o_(options) {}

  std::int64_t width(std::int64_t published) const {
    return std::max<std::int64_t>(1, std::llround(o_.width_multiplier * static_cast<double>(published)));
  }
  /// Convolution without bias; padding on both sides, also with a stride.
  Var plain_conv(Var x, std::int64_t filters, std::int64_t kernel, const std::string& name, std::int64_t stride = 1,
                 std::int64_t dilation = 1, std::int64_t groups = 1) const {
    const std::int64_t pad = dilation * (kernel - 1) / 2;
    return conv(x,
                {.filters = filters,
                 .size = kernel,
                 .stride = stride,
                 .padding = Padding::given,
                 .dilation = dilation,
                 .groups = groups,
                 .bias = false,
                 .pad_begin = {pad, pad},
                 .weights_init = init},
                name);
  }
  Var normalized(Var x, const std::string& name) const { return batch_norm(x, {.ranks = o_.batch_norm_ranks}, name); }
  /// Convolution, batch norm, ReLU.
  Var unit(Var x, std::int64_t filters, std::int64_t kernel, const std::string& name, std::int64_t stride = 1,
           std::int64_t dilation = 1) const {
    return relu(normalized(plain_conv(x, width(filters), kernel, name, stride, dilation), name + "_norm"));
  }
  Var separable(Var x, std::int64_t filters, const std::string& name, std::int64_t stride = 1,
                std::int64_t dilation = 1) const {
    const std::int64_t channels = x.shape().shape[1];
    x = plain_conv(x, channels, 3, name + "_depthwise", stride, dilation, channels);
    return plain_conv(x, width(filters), 1, name + "_pointwise");
  }
  Var deconv(Var x, std::int64_t filters, const std::string& name, std::int64_t stride = 2) const {
    return transposed_conv(x,
                           {.filters = filters,
                            .stride = stride,
                            .padding = Padding::given,
                            .bias = false,
                            .pad_begin = {1, 1},
                            .output_padding = stride - 1},
                           name);
  }
  Var deconv_unit(Var x, const std::string& name, std::int64_t stride = 2) const {
    return relu(normalized(deconv(x, width(256), name, stride), name + "_norm"));
  }

  struct Block {
    std::string name;
    std::int64_t inner, filters;  ///< filters of the first S; filters of the others
    std::int64_t stride, dilation;
    bool linear_end;  ///< the last S has the stride, no dilation and no batch norm
  };
  /// The sum of the block's two branches.
  Var block(Var x, const Block& b) const {
    const Var skip =
        b.linear_end ? normalized(plain_conv(x, width(b.filters), 1, b.name + "_skip", b.stride), b.name + "_skip_norm")
                     : x;
    const auto s = [&](Var v, std::int64_t filters, int i) {
      const auto name = fmt::format("{}_conv{}", b.name, i);
      return normalized(separable(v, filters, name, 1, b.dilation), name + "_norm");
    };
    Var v = s(relu(s(x, b.inner, 1)), b.filters, 2);
    v = b.linear_end ? separable(v, b.filters, b.name + "_conv3", b.stride) : s(relu(v), b.filters, 3);
    return v + skip;
  }

  Init init = Init::he_normal();

 private:
  const DeepCamOptions& o_;
};

}  // namespace

Graph deepcam(const DeepCamOptions& o) {
  if (o.output_stride != 16 && o.output_stride != 8)
    refuse("DeepCAM with an output stride of {}: expected 16 or 8", o.output_stride);
  if (o.middle_blocks < 0) refuse("DeepCAM with {} blocks in the middle: expected 0 or more", o.middle_blocks);
  if (!(o.width_multiplier > 0 && o.width_multiplier <= 16))
    refuse("DeepCAM with a width multiplier of {}: expected more than 0 and at most 16", o.width_multiplier);
  require_image_size("DeepCAM", o.rows, o.columns, o.output_stride);
  const bool dense = o.output_stride == 8;
  const std::int64_t middle = dense ? 2 : 1, exit = 2 * middle, rate = 6 * middle;
  DeepCamBuilder build(o);
  Graph g;
  Var x = g.input("x", {o.channels, o.rows, o.columns});
  const Var y = g.input("y", {o.rows, o.columns}, DType::s32);

  x = build.unit(build.unit(x, 32, 3, "stem1", 2), 64, 3, "stem2");
  const Var low = relu(build.block(x, {"block1", 128, 128, 2, 1, true}));
  x = relu(build.block(low, {"block2", 256, 256, 2, 1, true}));
  x = relu(build.block(x, {"block3", 728, 728, dense ? 1 : 2, 1, true}));
  for (int i = 0; i < o.middle_blocks; ++i)
    x = relu(build.block(x, {fmt::format("block{}", 4 + i), 728, 728, 1, middle, false}));
  x = build.block(x, {fmt::format("block{}", 4 + o.middle_blocks), 728, 1024, 1, middle, true});
  for (int i = 1; const std::int64_t filters : {1536, 1536, 2048}) {
    const auto name = fmt::format("exit{}", i++);
    x = relu(build.normalized(build.separable(x, filters, name, 1, exit), name + "_norm"));
  }

  std::vector<Var> branches{build.unit(x, 256, 1, "aspp1")};
  for (int i = 1; i <= 3; ++i) branches.push_back(build.unit(x, 256, 3, fmt::format("aspp{}", i + 1), 1, i * rate));
  build.init = Init::fan_in_uniform();
  const std::int64_t branch = build.width(256);
  const Var mean = build.plain_conv(global_average_pool(x), branch, 1, "aspp_mean");
  const Var affine = relu(conv(
      mean, {.filters = branch, .size = 1, .groups = branch, .weights_init = Init::constant(1)}, "aspp_mean_affine"));
  branches.push_back(resize(affine, {.rows = x.shape().shape[2], .columns = x.shape().shape[3]}));
  x = build.unit(concat(branches), 256, 1, "aspp");

  const Var details = build.unit(low, 48, 1, "low_level");
  x = build.deconv_unit(build.deconv_unit(x, "decoder_deconv1", dense ? 1 : 2), "decoder_deconv2");
  x = build.unit(concat({x, details}), 256, 3, "decoder_conv1");
  x = build.unit(x, 256, 3, "decoder_conv2");
  x = conv(x, {.filters = branch, .size = 1, .weights_init = build.init, .bias_init = Init::uniform(1.0f / 16)},
           "decoder_conv3");
  x = build.deconv(build.deconv_unit(x, "decoder_deconv3"), o.classes, "decoder_deconv4");
  g.set_output("prediction", x);
  pixel_cross_entropy(x, y, o.loss);
  return g;
}

}  // namespace keelson::nets
