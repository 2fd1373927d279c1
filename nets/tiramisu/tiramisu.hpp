#pragma once

#include <cstdint>
#include <vector>

#include "engine/graph/graph.hpp"
#include "nets/climate_loss.hpp"

/// Tiramisu: a fully convolutional DenseNet for segmentation.
namespace keelson::nets {

/// Sizes and settings; as published by default.
struct TiramisuOptions {
  std::int64_t rows = 768, columns = 1152;  ///< size of the input: multiples of 2^(blocks - 1), 16 as published
  std::int64_t channels = 16;               ///< channels of the input
  std::int64_t classes = 3;                 ///< classes of a pixel
  std::int64_t first = 64;                  ///< filters of the first convolution
  std::int64_t growth = 32;                 ///< filters of each layer of a block
  std::vector<int> layers = {2, 2, 2, 4,
                             5};  ///< layers of each block on the way down; on the way up the same without the last
  std::int64_t kernel = 5;        ///< extent of the layers' kernels
  float dropout = 0.2f;           ///< rate
  bool dropout_on_logits = true;  ///< the published code also applies dropout to the logits: a dropped logit is 0
  ops::PixelLossParams loss = sc18_loss();  ///< loss of each pixel
};

/// Inputs "x" (channels, rows, columns) and "y" (rows, columns) s32, the class of each pixel; output "prediction", the
/// logits (classes, rows, columns). Throws InputError for sizes that do not fit.
///
/// The network of Kurth et al., SC18 (arXiv 1810.01993), from azrael417/ClimDeepLearn
/// semanticsegm/tiramisu-tf/tiramisu_model.py with the settings of its run scripts: 7,504,835 parameters. Its ancestor,
/// FC-DenseNet (Jegou et al. 2017, arXiv 1611.09326), has batch norm and max pooling, which this network does not have.
///
/// | layer      | result (at 768 x 1152) |
/// |------------|------------------------|
/// | input      | 5^2, 64 filters: 64 x 768 x 1152 |
/// | down0 .. 4 | 2, 2, 2, 4, 5 layers of 5^2, 32 filters, each appended to its input: 128, 192, 256, 384, 544 |
/// | transition0 .. 3 | 1^2 with stride 2 after down0 .. 3, as many filters as it reads |
/// | up0 .. 3 | 3^2 deconvolution of the maps that the previous block made; then 4, 2, 2, 2 layers on the result and a
/// skip | | output | 1^2 of all 256 maps: 3 x 768 x 1152 |
///
/// The skips are the results of down3 .. 0. Deconvolutions have stride 2, as many filters as they read, a bias and no
/// activation. ReLU and dropout after the input, each layer and each transition; all convolutions "same", with bias;
/// deconvolutions as TensorFlow's "same". He-uniform weights, zero biases.
///
/// Deviations: the published training uses dropout also in validation; here evaluation does not. The published code
/// also has a transition after the last block, of 296,480 parameters, whose result nothing reads; this network leaves
/// it out.
Graph tiramisu(const TiramisuOptions& options = {});

}  // namespace keelson::nets
