#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "apps/label/images/features.hpp"
#include "engine/base/error.hpp"
#include "tests/support/array_files.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::label::testing {
namespace {

constexpr float nan_pixel = std::numeric_limits<float>::quiet_NaN();

/// `images` of H x W [x C], values 100 i + number of the element.
std::string write_images(const std::string& path, const hdf5::Dims& shape) {
  std::vector<float> x;
  std::int64_t of_image = 1;
  for (std::size_t d = 1; d < shape.size(); ++d) of_image *= shape[d];
  for (std::int64_t i = 0; i < shape[0]; ++i)
    for (std::int64_t k = 0; k < of_image; ++k) x.push_back(static_cast<float>(100 * i + k));
  x[1] = nan_pixel;
  auto file = hdf5::File::create(path);
  file.write("x", x.data(), shape);
  file.close();
  return path;
}

TEST(Images, HavePlacesInTheirFiles) {
  const keelson::testing::TemporaryFolder folder;
  write_images(folder / "a.h5", {3, 4, 5});
  write_images(folder / "b.h5", {2, 4, 5});
  const Images images({.path = folder.path()});
  ASSERT_EQ(images.size(), 5);
  EXPECT_EQ(images.file_of(3), folder / "b.h5");
  EXPECT_EQ(images.index_in_file(3), 0);
  EXPECT_EQ(images.index_in_file(2), 2);
  const Image i = images.read(4);
  EXPECT_EQ(i.at(1, 2, 0), 107);
  EXPECT_TRUE(std::isnan(images.read(0).at(0, 1, 0)));
  EXPECT_TRUE(std::isnan(Images({.path = folder.path(), .mask_below = 105}).read(4).at(0, 4, 0)));
  EXPECT_THROW(Images({.path = folder / "none.h5"}), InputError);
}

TEST(Images, ChannelsAreFoundByTheShape) {
  const keelson::testing::TemporaryFolder folder;
  const Images last({.path = write_images(folder / "last.h5", {2, 6, 5, 3})});
  EXPECT_EQ(last.channels(), 3);
  EXPECT_EQ(last.read(1).at(0, 1, 2), 105);
  const Images first({.path = write_images(folder / "first.h5", {2, 3, 6, 5})});
  EXPECT_EQ(first.channels(), 3);
  EXPECT_EQ(first.read(1).at(0, 1, 2), 161);
  EXPECT_THROW(Images({.path = write_images(folder / "flat.h5", {2, 6})}), InputError);
  EXPECT_THROW(Images({.path = write_images(folder / "deep.h5", {2, 9, 6, 9})}), InputError);
}

/// Brightness 3 within a radius, 1 outside: log(1 + 3) and log(1 + 1).
Image disk(std::int64_t edge, double radius) {
  Image i{edge, edge, 1, {}};
  for (std::int64_t y = 0; y < edge; ++y)
    for (std::int64_t x = 0; x < edge; ++x) {
      const double m = static_cast<double>(edge - 1) / 2;
      i.values.push_back(std::hypot(static_cast<double>(x) - m, static_cast<double>(y) - m) < radius ? 3 : 1);
    }
  return i;
}

TEST(Features, OfRings) {
  Image image = disk(65, 20);
  image.values[32 * 65 + 32] = nan_pixel;  // the one pixel in the middle, within others of its ring
  const auto f = features_of(image, {});
  ASSERT_EQ(f.size(), 129u);
  const auto profile = radial_profile(image, {});
  EXPECT_NEAR(profile[0], std::log(4), 1e-6);
  EXPECT_NEAR(profile[31], std::log(2), 1e-6);
  double level = 0;
  for (const double v : profile) level += v / 32;
  EXPECT_NEAR(f[128], level, 1e-5);
  EXPECT_NEAR(f[0], std::log(4) - level, 1e-5);
  const auto edge = static_cast<std::size_t>(20 / (std::hypot(32, 32) / 32));  // the ring with the step
  double steps = 0;
  for (std::size_t k = 0; k < 32; ++k) steps += static_cast<double>(f[32 + k]);
  EXPECT_NEAR(steps, std::log(2) - std::log(4), 1e-5) << "differences add up";
  for (std::size_t k = 0; k < 32; ++k) EXPECT_EQ(f[64 + k] > 1e-3f, k == edge) << k << ": only this ring is mixed";
  EXPECT_EQ(features_of(Image{4, 4, 1, std::vector<float>(16, nan_pixel)}, {}), std::vector<float>(129));
}

TEST(Features, RingsOfEqualMomentumTransferAreNarrowerInTheMiddle) {
  const Image image = disk(65, 10);
  const auto bright = [&](double length) {
    FeatureOptions o;
    o.camera_length = length;
    int rings = 0;
    for (const double v : radial_profile(image, o)) rings += v > 1 ? 1 : 0;
    return rings;
  };
  EXPECT_GT(bright(20), bright(0));
}

TEST(Features, OfPixelsAndThumbnails) {
  const Image image = disk(64, 16);
  const FeatureOptions o{.kind = "pixels", .log = false, .pixels = 8};
  const auto f = features_of(image, o);
  ASSERT_EQ(f.size(), 64u);
  EXPECT_EQ(f[0], 1);
  EXPECT_EQ(f[3 * 8 + 3], 3);
  const auto grey = thumbnail(image, 8, true);
  EXPECT_EQ(grey[0], 0);
  EXPECT_EQ(grey[3 * 8 + 3], 255);
  EXPECT_THROW(feature_shape({.kind = "words"}, 1), InputError);
}

}  // namespace
}  // namespace keelson::label::testing
