#pragma once

#include <cstdint>

#include "engine/graph/graph.hpp"
#include "nets/climate_loss.hpp"

/// DeepLabv3+ (Chen et al. 2018, arXiv 1802.02611) for climate segmentation.
namespace keelson::nets {

/// Sizes and settings of MLPerf HPC's DeepCAM; as published by default.
struct DeepCamOptions {
  std::int64_t rows = 768, columns = 1152;  ///< size of the input: multiples of output_stride
  std::int64_t channels = 16;               ///< channels of the input
  std::int64_t classes = 3;                 ///< classes of a pixel
  int output_stride = 16;                   ///< 16 or 8: the number by which the encoder divides rows and columns
  int middle_blocks = 16;                   ///< blocks of the middle flow
  float width_multiplier =
      1;                     ///< factor of all widths except those of input and result (Howard et al. 2017); for tests
  int batch_norm_ranks = 1;  ///< as BatchNormOptions::ranks
  ops::PixelLossParams loss = deepcam_loss();  ///< loss of each pixel
};

/// Inputs "x" (channels, rows, columns) and "y" (rows, columns) s32, the class of each pixel; output "prediction", the
/// logits (classes, rows, columns). Throws InputError for sizes that do not fit.
///
/// The network of MLPerf HPC v1.0 and later: mlcommons/hpc deepcam/src/deepCam/architecture/deeplab_xception.py.
/// 56,454,720 parameters and 97,760 running statistics.
///
/// | layer      | result (at 768 x 1152, output stride 16) |
/// |------------|------------------------------------------|
/// | stem1, 2   | 3^2, 32 filters with stride 2, then 64: 64 x 384 x 576 |
/// | block1 .. 3 | S, S without ReLU, linear S with stride 2: 128 x 192 x 288, 256 x 96 x 144, 728 x 48 x 72 |
/// | block4 .. 19 | S, S, S without ReLU: 728 x 48 x 72 |
/// | block20    | S to 728, S to 1024 without ReLU, linear S: 1024 x 48 x 72 |
/// | exit1 .. 3 | S with dilation 2 to 1536, 1536 and 2048: 2048 x 48 x 72 |
/// | aspp1 .. 4 | 1^2 and 3^2 with dilations 6, 12, 18, 256 filters each |
/// | aspp_mean  | the mean of all pixels, 1^2, 256 filters, a x + b for each channel, repeated for all pixels |
/// | aspp       | 1^2 of all five: 256 x 48 x 72 |
/// | low_level  | 1^2 of block1, 48 filters: 48 x 192 x 288 |
/// | decoder_deconv1, 2 | 3^2 deconvolutions with stride 2: 256 x 192 x 288 |
/// | decoder_conv1 .. 3 | 3^2, 3^2 of these and low_level; 1^2 with bias, linear |
/// | decoder_deconv3, 4 | 3^2 deconvolutions with stride 2, the last one linear without batch norm: 3 x 768 x 1152 |
///
/// S is a depthwise convolution 3^2 and a convolution 1^2. Batch norm and ReLU follow each S and each other
/// convolution; linear ones have neither. Each block adds its input: unchanged in block4 to 19, else through a 1^2 with
/// batch norm. ReLU follows the sum, except in block20. (Behind block1 it works in place, so that low_level reads the
/// rectified values, too.) Only the convolution decoder_conv3 has a bias. Deconvolutions as in PyTorch with padding 1
/// and output padding 1. The weights of the encoder and of aspp1 to 4 are He-normal, all others uniform within 1 /
/// sqrt(fan in).
///
/// Output stride 8: block3 has stride 1, block4 to 19 and the first two S of block20 dilation 2, exit1 to 3 dilation
/// 4, aspp2 to 4 dilations 12, 24, 36. The published decoder fits only output stride 16; with 8, decoder_deconv1 has
/// stride 1 here.
Graph deepcam(const DeepCamOptions& options = {});

}  // namespace keelson::nets
