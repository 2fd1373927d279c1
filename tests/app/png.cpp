#include "apps/common/report/png.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace keelson::app {
namespace {

/// The bytes of a picture of 2 x 1 pixels, black and white; checksums by Python's zlib.
TEST(Png, IsWhatTheStandardSays) {
  const std::vector<std::uint8_t> pixels{0, 1};
  const std::vector<Colour> palette{{0, 0, 0}, {255, 255, 255}};
  EXPECT_EQ(base64(png(2, 1, pixels, palette)),
            "iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAMAAADD/I+4AAAABlBMVEUAAAD///+l2Z/dAAAADklEQVR4AQEDAPz/"
            "AAABAAQAAgshi3EAAAAASUVORK5CYII=");
}

TEST(Png, Base64) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
}

}  // namespace
}  // namespace keelson::app
