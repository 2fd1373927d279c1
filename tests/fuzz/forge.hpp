#pragma once

#include <filesystem>

#include "tests/fuzz/mutate.hpp"

/// Checkpoints that no run has written and whose checksums are right all the same, as somebody makes who means harm, or
/// a program with a fault.
namespace keelson::fuzz {

/// Writes the checkpoint `original` to `path` with other values: fields of the state out of their ranges, extreme
/// floats, arrays of other shapes and names, other configurations, texts and topologies.
void forge_checkpoint(const std::filesystem::path& original, const std::filesystem::path& path, Random& random);

}  // namespace keelson::fuzz
