#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/label/images/images.hpp"
#include "engine/tensor/shape.hpp"

namespace keelson::label {

inline constexpr std::int64_t radial_bins = 32;

/// What the networks see of an image.
struct FeatureOptions {
  /// "radial": what is in 32 rings around the centre, for each channel, for images that are round, such as those of
  /// diffraction: of each ring the mean less that of the image, its difference from the ring inside, the standard
  /// deviation, and the maximum less the mean; and the mean of the image. "pixels": the image, made smaller.
  std::string kind = "radial";
  bool log = true;                              ///< of log(1 + max(0, value)) instead of the value
  std::int64_t pixels = 32;                     ///< edge of the smaller image
  std::optional<std::array<double, 2>> centre;  ///< column and row of the rings' centre; none: of the image
  /// Distance of the sample from a flat detector, in pixels: rings then have equal widths in the momentum transfer q,
  /// that is in sin(theta); 0: in the radius.
  double camera_length = 0;
};

inline constexpr std::int64_t radial_features = 4 * radial_bins + 1;  ///< of a channel

/// Shape of the features of an image: (radial_features * channels), or (channels, pixels, pixels).
Shape feature_shape(const FeatureOptions& o, std::int64_t channels);
/// The features of an image, row-major, before they are standardised. Pixels without a measurement do not count; a ring
/// without pixels gives zeros.
std::vector<float> features_of(const Image& image, const FeatureOptions& o);

/// The features of all images.
struct Features {
  Shape shape;                ///< of an image
  std::vector<float> values;  ///< (images, shape): each feature has mean 0 and deviation 1 over all images; with
                              ///< "pixels" each channel
  std::int64_t images() const { return shape.elements() == 0 ? 0 : std::ssize(values) / shape.elements(); }
  const float* of(std::int64_t image) const { return values.data() + image * shape.elements(); }
};
/// Reads all images. `done`: as in in_threads(). Throws InputError.
Features read_features(const Images& images, const FeatureOptions& o, const std::function<void(std::int64_t)>& done);

/// A small picture of an image for people: `edge` x `edge` numbers of grey, 0 to 255, between the 1st and the 99.5th
/// percentile; pixels without a measurement are 0. Channels are averaged. With `log` of log(1 + value).
std::vector<std::uint8_t> thumbnail(const Image& image, std::int64_t edge, bool log);
/// The means of the rings of features_of(), of the first channel, for a plot; NaN for a ring without pixels.
std::vector<double> radial_profile(const Image& image, const FeatureOptions& o);

}  // namespace keelson::label
