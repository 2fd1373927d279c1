#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace keelson {

/// The content of a regular file or of one in /proc; nothing where there is none, where it cannot be read, and where it
/// is larger than `most` bytes. Unlike a stream it neither throws (a process may end while its file in /proc is read)
/// nor waits for a pipe.
std::optional<std::string> read_small_file(const std::string& path, std::size_t most = std::size_t{64} << 20);

}  // namespace keelson
