#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "apps/minerva/detector/event.hpp"

namespace keelson::minerva {

/// How simulated events are written.
struct EventFileOptions {
  ImageSize size = ImageSize::cropped;
  std::int64_t channels = 2;  ///< of images: 1 energies, 2 energies and times
  bool water = true;          ///< the tank is filled
  std::uint64_t seed = 1;
};

/// Writes events `begin` to `end` - 1 of a set ("train", "validation", "test") in the experiment's layout: eventids,
/// planecodes, segments and zs, and compressed images. The same options give the same file. Replaces an existing file
/// as a whole. Throws Error if it cannot be written.
void write_events(const std::filesystem::path& path, const EventFileOptions& options, const std::string& set,
                  std::int64_t begin, std::int64_t end);

}  // namespace keelson::minerva
