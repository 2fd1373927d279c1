#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// Undoes the filters through which HDF5 has written a chunk, without the library.
namespace keelson::hdf5::detail {

/// A filter of HDF5 (its "Data Transforms: Filters" in the file format specification).
struct ChunkFilter {
  /// Compression by zlib; bytes of equal place in their elements side by side; a checksum behind the data.
  enum class Kind : std::uint8_t { deflate, shuffle, fletcher32 };
  Kind kind = Kind::deflate;
  std::int64_t element_bytes = 1;  ///< of shuffle
};

/// Memory that is not initialised, and that grows.
class Scratch {
 public:
  char* get(std::int64_t bytes);
  void shrink(std::int64_t most);  ///< gives the memory back if there is more

 private:
  std::unique_ptr<char[]> memory_;
  std::int64_t size_ = 0;
};

/// Bytes that filters have changed, and what undoes them.
struct FilteredChunk {
  std::span<const ChunkFilter> filters;  ///< in the order of writing; at most one deflate
  std::uint32_t skipped = 0;             ///< bit i: filter i was not applied to this chunk
  std::int64_t bytes = 0;                ///< of the chunk's elements
};

/// The elements of a chunk, of which the file holds the bytes `stored`. The result lies in `stored`, in `memory`, or at
/// `dst`, which is null or has room for the elements. Throws InputError for damaged bytes, for more or fewer elements
/// than a chunk has, and, before it takes memory, for so many elements that deflate cannot have made so few bytes of
/// them. The message tells the reason alone, without the file.
const char* undo_filters(const FilteredChunk& chunk, std::span<const char> stored, std::span<Scratch, 2> memory,
                         char* dst);

/// Fletcher's checksum of 32 bits, as HDF5 computes it: of 16-bit numbers, whose first byte is the higher one.
std::uint32_t fletcher32(std::span<const char> data);

}  // namespace keelson::hdf5::detail
