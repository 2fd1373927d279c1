#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/data/files/raw_file.hpp"

namespace keelson {

/// Whether the file begins as one that gzip (RFC 1952) or zlib (RFC 1950) has compressed.
bool is_compressed_content(const RawFile& file);

/// The decompressed content of such a file. A gzip file may have several members, one after the other. Throws
/// InputError, naming the file and the byte, for a file that is damaged or ends too early.
std::vector<char> decompress(const RawFile& file);

/// How decompression in memory has ended.
struct InflateEnding {
  std::string why;        ///< empty: all is well; else why the data cannot be decompressed
  std::int64_t byte = 0;  ///< of the compressed data, where that was found
};

/// Decompresses data of zlib (RFC 1950) that hold exactly `bytes` bytes, by libdeflate if Keelson was built with it,
/// else by zlib. `src` may be longer than the data. Nothing is written beyond dst[bytes - 1].
InflateEnding inflate_exactly(std::span<const char> src, char* dst, std::int64_t bytes);

}  // namespace keelson
