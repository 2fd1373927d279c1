#pragma once

#include <cstdint>
#include <string>

#include "engine/ops/pixel_loss.hpp"
#include "nets/settings.hpp"

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

/// The losses by their names in programs and Python.
inline constexpr const char* climate_losses[] = {"deepcam", "sc18", "sc18-sum"};

/// The loss of the setting "loss"; `published`, one of climate_losses, for "auto" and without the setting. Throws
/// InputError for other names.
inline ops::PixelLossParams climate_loss(const Settings& settings, const std::string& published) {
  const std::string given = settings.text("loss", "auto"), name = given == "auto" ? published : given;
  if (name == "deepcam") return deepcam_loss();
  if (name == "sc18") return sc18_loss();
  if (name == "sc18-sum") return sc18_loss(ops::PixelMean::none, 0.1f);
  settings.refuse_text("loss", given, "auto, deepcam, sc18 or sc18-sum");
}

/// Reads the settings that all climate networks have: "classes" and "loss". `sample`: (channels, rows, columns).
template <class Options>
void read_climate_settings(const Settings& settings, const Shape& sample, const std::string& published_loss,
                           Options& o) {
  if (sample.rank() != 3) refuse("samples of {}; expected (channels, rows, columns)", to_string(sample));
  o.channels = sample[0];
  o.rows = sample[1];
  o.columns = sample[2];
  settings.get("classes", o.classes);
  o.loss = climate_loss(settings, published_loss);
}

}  // namespace keelson::nets
