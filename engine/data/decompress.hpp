#pragma once

#include <vector>

#include "engine/data/raw_file.hpp"

namespace keelson {

/// Whether the file begins as one that gzip (RFC 1952) or zlib (RFC 1950) has compressed.
bool is_compressed_content(const RawFile& file);

/// The decompressed content of such a file. A gzip file may have several members, one after the other. Throws
/// InputError, naming the file and the byte, for a file that is damaged or ends too early.
std::vector<char> decompress(const RawFile& file);

}  // namespace keelson
