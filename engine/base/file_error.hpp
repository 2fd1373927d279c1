#pragma once

#include <filesystem>
#include <string>

#include "engine/base/error.hpp"

namespace keelson {

/// "runs/a: Permission denied".
std::string describe(const std::filesystem::filesystem_error& error);

/// Whether the path is to blame, which the user gave, or the file system.
ExitCode exit_code_of(const std::filesystem::filesystem_error& error);

}  // namespace keelson
