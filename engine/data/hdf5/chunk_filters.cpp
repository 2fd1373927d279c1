#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/base/error.hpp"
#include "engine/data/files/decompress.hpp"
#include "engine/data/hdf5/detail/chunk_filters.hpp"

namespace keelson::hdf5::detail {
namespace {

constexpr std::int64_t checksum_bytes = 4;

template <std::int64_t E>
void interleave(const char* src, std::int64_t elements, char* dst) {
  for (std::int64_t i = 0; i < elements; ++i)
    for (std::int64_t b = 0; b < E; ++b) dst[i * E + b] = src[b * elements + i];
}

/// Bytes behind the last whole element were not shuffled.
void undo_shuffle(std::span<const char> src, std::int64_t element_bytes, char* dst) {
  const std::int64_t n = std::ssize(src) / element_bytes;
  if (element_bytes == 1) {
    std::copy(src.begin(), src.end(), dst);
    return;
  }
  if (element_bytes == 2)
    interleave<2>(src.data(), n, dst);
  else if (element_bytes == 4)
    interleave<4>(src.data(), n, dst);
  else if (element_bytes == 8)
    interleave<8>(src.data(), n, dst);
  else
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t b = 0; b < element_bytes; ++b) dst[i * element_bytes + b] = src[b * n + i];
  std::copy(src.begin() + n * element_bytes, src.end(), dst + n * element_bytes);
}

/// The data without the checksum behind them.
std::span<const char> checked(std::span<const char> src) {
  if (std::ssize(src) < checksum_bytes)
    refuse("the checksum is missing: there are {} bytes. Expected {} or more", src.size(), checksum_bytes);
  const auto data = src.first(src.size() - checksum_bytes);
  std::uint32_t stored = 0;
  for (std::size_t b = checksum_bytes; b-- > 0;)  // the lowest byte first
    stored = stored << 8 | static_cast<unsigned char>(src[data.size() + b]);
  const std::uint32_t computed = fletcher32(data);
  // HDF5 before 1.6.3 swapped the bytes of each half on some machines; the library accepts such sums, too.
  const std::uint32_t swapped = (computed & 0x00ff00ffu) << 8 | (computed >> 8 & 0x00ff00ffu);
  if (stored != computed && stored != swapped)
    refuse("the checksum is {:08x}. Expected {:08x}, that of the data", stored, computed);
  return data;
}

void undo_deflate(std::span<const char> src, char* dst, std::int64_t bytes) {
  const auto ending = inflate_exactly(src, dst, bytes);
  if (!ending.why.empty())
    refuse("cannot be decompressed at byte {} of the chunk: {}. Expected {} bytes", ending.byte, ending.why, bytes);
}

}  // namespace

char* Scratch::get(std::int64_t bytes) {
  if (size_ < bytes) {
    memory_.reset();
    memory_ = std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(bytes));
    size_ = bytes;
  }
  return memory_.get();
}

void Scratch::shrink(std::int64_t most) {
  if (size_ <= most) return;
  memory_.reset();
  size_ = 0;
}

const char* undo_filters(const FilteredChunk& chunk, std::span<const char> stored, std::span<Scratch, 2> memory,
                         char* dst) {
  // Deflate makes at most 1032 bytes of one (zlib's documentation), so a chunk that claims more is no memory's worth.
  constexpr std::int64_t most_of_a_byte = 1032, head = 64;
  std::vector<ChunkFilter> applied;
  for (std::size_t i = 0; i < chunk.filters.size(); ++i)
    if ((chunk.skipped >> i & 1u) == 0) applied.push_back(chunk.filters[i]);
  std::span<const char> now = stored;
  std::size_t free = 0;  // the part of `memory` that `now` does not lie in
  for (std::size_t i = applied.size(); i-- > 0;) {
    if (applied[i].kind == ChunkFilter::Kind::fletcher32) {
      now = checked(now);
      continue;
    }
    auto bytes = std::ssize(now);
    if (applied[i].kind == ChunkFilter::Kind::deflate) {
      const auto sums = std::count_if(applied.begin(), applied.begin() + static_cast<std::ptrdiff_t>(i),
                                      [](auto& f) { return f.kind == ChunkFilter::Kind::fletcher32; });
      bytes = chunk.bytes + sums * checksum_bytes;
      if (bytes / most_of_a_byte > std::ssize(now) + head)
        refuse("{} bytes cannot be decompressed to {}, those of a chunk", now.size(), bytes);
    }
    char* const to = i == 0 && dst && bytes == chunk.bytes ? dst : memory[free].get(bytes);
    if (applied[i].kind == ChunkFilter::Kind::deflate)
      undo_deflate(now, to, bytes);
    else
      undo_shuffle(now, applied[i].element_bytes, to);
    now = {to, static_cast<std::size_t>(bytes)};
    free = 1 - free;
  }
  if (std::ssize(now) != chunk.bytes)
    refuse("there are {} bytes. Expected {}, those of a chunk", now.size(), chunk.bytes);
  return now.data();
}

std::uint32_t fletcher32(std::span<const char> data) {
  constexpr std::size_t most = 360;  // 16-bit numbers whose sums of sums fit into 32 bits
  const auto fold = [](std::uint32_t sum) { return (sum & 0xffffu) + (sum >> 16); };
  const auto* byte = reinterpret_cast<const unsigned char*>(data.data());
  std::uint32_t sum = 0, sum_of_sums = 0;
  for (std::size_t left = data.size() / 2; left > 0;) {
    const std::size_t some = std::min(left, most);
    for (std::size_t i = 0; i < some; ++i, byte += 2) sum_of_sums += sum += std::uint32_t{byte[0]} << 8 | byte[1];
    left -= some;
    sum = fold(sum);
    sum_of_sums = fold(sum_of_sums);
  }
  if (data.size() % 2 == 1) {
    sum_of_sums += sum += std::uint32_t{*byte} << 8;
    sum = fold(sum);
    sum_of_sums = fold(sum_of_sums);
  }
  return fold(sum_of_sums) << 16 | fold(sum);
}

}  // namespace keelson::hdf5::detail
