#pragma once

#include <cstddef>
#include <cstdint>

namespace keelson {

/// CRC-32C (Castagnoli; polynomial 0x1EDC6F41, reflected, as in iSCSI, RFC 3720) of some bytes: "123456789" has
/// 0xe3069283. `before`: the result for the bytes before these, to compute the checksum part by part. Takes the
/// instruction of x86-64 processors with SSE 4.2, else a table.
std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t before = 0);

/// The same by the table alone, for tests.
std::uint32_t crc32c_by_table(const void* data, std::size_t bytes, std::uint32_t before = 0);

}  // namespace keelson
