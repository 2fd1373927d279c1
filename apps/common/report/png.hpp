#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace keelson::app {

/// Red, green, blue.
using Colour = std::array<std::uint8_t, 3>;

/// A PNG file (W3C PNG, third edition) of `width` x `height` pixels, row by row from the top: numbers of colours in
/// `palette`, which has at most 256. The pixels are not compressed, so no library is needed: a byte each, and some.
std::string png(int width, int height, std::span<const std::uint8_t> pixels, std::span<const Colour> palette);

/// RFC 4648.
std::string base64(const std::string& bytes);

}  // namespace keelson::app
