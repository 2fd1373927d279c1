#pragma once

#include "engine/ops/pixel_loss.hpp"

/// The losses for training climate segmentation; classes: background, tropical cyclone, atmospheric river.
namespace keelson::nets {

/// MLPerf HPC DeepCAM: the mean over all pixels, with the weights frequency^-0.125 (mlcommons/hpc
/// deepcam/src/deepCam/train.py).
inline ops::PixelLossParams deepcam_loss() {
  return {.class_weights = {1.0017299121f, 2.6146112240f, 1.7164197480f}, .mean = ops::PixelMean::all};
}

/// Kurth et al., SC18 (arXiv 1810.01993): weights that are the inverse square roots of the frequencies, with the sum 1.
/// Tiramisu takes the mean over the pixels whose weight is not 0; DeepLabv3+ ran with PixelMean::none and factor 0.1
/// (azrael417/ClimDeepLearn utils/common_helpers.py).
inline ops::PixelLossParams sc18_loss(ops::PixelMean mean = ops::PixelMean::counted, float factor = 1) {
  return {.class_weights = {0.0217965995f, 0.8120462456f, 0.1661571549f}, .mean = mean, .factor = factor};
}

}  // namespace keelson::nets
