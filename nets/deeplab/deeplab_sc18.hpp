#pragma once

#include <cstdint>
#include <vector>

#include "engine/graph/graph.hpp"
#include "nets/climate_loss.hpp"

namespace keelson::nets {

/// How DeepLabv3+ of SC18 returns to full resolution.
enum class DeepLabDecoder {
  deconv1x,  ///< deconvolutions, and at full resolution a skip from the input: the network that ran on Summit
  deconv,    ///< deconvolutions, then the logits
  bilinear,  ///< interpolation by 2, and of the logits by 4
};

/// Sizes and settings of DeepLabv3+ of SC18; as it ran on Summit by default.
struct DeepLabSc18Options {
  std::int64_t rows = 768, columns = 1152;            ///< size of the input: multiples of 8
  std::int64_t channels = 16;                         ///< channels of the input
  std::int64_t classes = 3;                           ///< classes of a pixel
  DeepLabDecoder decoder = DeepLabDecoder::deconv1x;  ///< way back to full resolution
  std::vector<int> units = {3, 4, 6, 3};              ///< units of each block: ResNet-50; {3, 4, 23, 3}: ResNet-101
  bool batch_norm = false;                            ///< false: each batch norm is replaced by halving the values
  int batch_norm_ranks = 1;                           ///< as BatchNormOptions::ranks
  float width_multiplier =
      1;  ///< factor of all widths except those of input and result (Howard et al. 2017); for tests
  ops::PixelLossParams loss = sc18_loss(ops::PixelMean::none, 0.1f);  ///< loss of each pixel
};

/// Inputs "x" (channels, rows, columns) and "y" (rows, columns) s32, the class of each pixel; output "prediction", the
/// logits (classes, rows, columns). Throws InputError for sizes that do not fit.
///
/// The network of Kurth et al., SC18 (arXiv 1810.01993): sparticlesteve/climate-seg-benchmark
/// deeplab-tf/deeplab_model.py, on slim's resnet_v2. 43,669,251 parameters; with batch norm 43,714,787; with ResNet-101
/// 62,626,563.
///
/// | layer      | result (at 768 x 1152) |
/// |------------|------------------------|
/// | stem       | 7^2 with stride 2, linear, max-pool 3 with stride 2: 64 x 192 x 288 |
/// | block1     | 3 units of base width 64; the last has stride 2: 256 x 96 x 144 |
/// | block2 .. 4 | 4, 6, 3 units of base width 128, 256, 512 and dilation 1, 2, 4: 2048 x 96 x 144 |
/// | aspp1 .. 4 | C 1^2, and 3^2 with dilations 12, 24, 36, 256 filters each |
/// | aspp_mean  | the mean of all pixels, C 1^2, repeated for all pixels |
/// | aspp       | C 1^2 of all five: 256 x 96 x 144 |
/// | low_level  | C 1^2 of the first convolution of block1's last unit: 48 x 192 x 288 |
/// | decoder_deconv1, decoder_conv1, 2 | x 2, then C 3^2, C 3^2 of this and low_level: 256 x 192 x 288 |
/// | decoder_deconv2, 3 | x 2 each: 256 x 768 x 1152 |
/// | skip1, 2, full1, 2 | 3^2 of the input, 64 and 128 filters; 3^2, 3^2 of both, 256 filters; all linear |
/// | logits     | 1^2: 3 x 768 x 1152 |
///
/// C is a convolution without bias, batch norm, ReLU. Without batch norm, values are multiplied by 0.5 instead, as in
/// the published code. A unit of base width b: p = batch norm and ReLU of x (without batch norm, 0.5 x and no ReLU);
/// the sum of C 1^2, C 3^2 and a linear 1^2 with 4 b filters of p, and of x, or of a linear 1^2 of p if the width
/// changes. Linear convolutions and deconvolutions (3^2 with stride 2, TensorFlow's "same") have a bias. Weights
/// He-normal truncated as in TensorFlow 1; deconvolutions, skips and full1, 2 He-uniform; biases 0.
///
/// Deviations: the published code also has a batch norm after block 4, of 4096 parameters, whose result nothing reads;
/// this network leaves it out.
Graph deeplab_sc18(const DeepLabSc18Options& options = {});

}  // namespace keelson::nets
