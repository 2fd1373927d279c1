#pragma once

#include <filesystem>
#include <string>

#include "engine/base/error.hpp"

namespace keelson {

/// "runs/a: Permission denied".
std::string describe(const std::filesystem::filesystem_error& error);

/// The exit code for an error of the path, which the user gave, or for an error of the file system.
ExitCode exit_code_of(const std::filesystem::filesystem_error& error);

}  // namespace keelson
