#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace keelson {

/// The content of a regular file or of a file in /proc. Returns nothing if there is no such file, if it cannot be read,
/// or if it is larger than `most` bytes. Unlike a stream, this function neither throws (a process may end while its
/// file in /proc is read) nor waits for a pipe.
std::optional<std::string> read_small_file(const std::string& path, std::size_t most = std::size_t{64} << 20);

}  // namespace keelson
