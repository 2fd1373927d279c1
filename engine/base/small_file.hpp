#pragma once

#include <optional>
#include <string>

namespace keelson {

/// The content of a regular file or of one in /proc; nothing where there is none or it cannot be read. Unlike a stream
/// it neither throws (a process may end while its file in /proc is read) nor waits for a pipe.
std::optional<std::string> read_small_file(const std::string& path);

}  // namespace keelson
