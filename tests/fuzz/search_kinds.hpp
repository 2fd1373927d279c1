#pragma once

#include <filesystem>
#include <vector>

#include "tests/fuzz/kinds.hpp"

namespace keelson::fuzz {

/// Logs of searches, made in `base`: bytes, whole lines, and values under a right checksum are damaged.
std::vector<Kind> search_kinds(const std::filesystem::path& base);

}  // namespace keelson::fuzz
