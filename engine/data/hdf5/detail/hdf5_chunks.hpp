#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/data/files/raw_file.hpp"
#include "engine/data/hdf5/detail/chunk_filters.hpp"
#include "engine/data/hdf5/detail/hdf5_handle.hpp"

namespace keelson::hdf5::detail {

/// Where a chunk lies in the file.
struct ChunkPlace {
  std::int64_t number = 0;  ///< in row-major order of all chunks, also of those that were never written
  std::int64_t offset = 0, bytes = 0;
  std::uint32_t skipped = 0;  ///< bit i: filter i was not applied
};

/// A data set in chunks: what must be known to read it without the library.
struct ChunkFacts {
  std::string path, name;   ///< the file; the data set
  Dims shape, chunk, grid;  ///< of the data set, of a chunk, and of chunks
  Type type = Type::other;
  bool swapped = false;  ///< the byte order is not this machine's
  std::vector<ChunkFilter> filters;
  bool partial_unfiltered = false;  ///< chunks that reach beyond the shape were not filtered
  std::vector<ChunkPlace> places;   ///< sorted by number; a chunk that is missing has `fill` in all elements
  std::array<char, 8> fill{};       ///< an element in this machine's byte order

  std::int64_t chunk_elements() const;
};

/// What HDF5 says about a data set in chunks. No value: the library must read it, since it is not in chunks, has other
/// filters, an unusual type or no fill value, lies in another file than `path`, or since the library is too old to
/// tell. Throws InputError for an index of chunks that cannot be right. The caller holds HDF5's lock.
std::optional<ChunkFacts> chunk_facts(hid_t dataset, const std::string& path, const std::string& name);

/// Reads a data set in chunks without the library, by any number of threads: each thread reads the chunks that it needs
/// and undoes their filters.
class ChunkedData {
 public:
  explicit ChunkedData(ChunkFacts facts) : facts_(std::move(facts)), file_(facts_.path) {}

  const ChunkFacts& facts() const { return facts_; }
  /// Whether elements can be read as `type`: the stored type, float or double. HDF5 rounds doubles of the other byte
  /// order in a way of its own.
  bool converts_to(Type type) const {
    if (type == Type::f32 && facts_.type == Type::f64 && facts_.swapped) return false;
    return type == facts_.type || type == Type::f32 || type == Type::f64;
  }
  /// Reads a box, which must lie in the shape, in row-major order, converted as HDF5 does. Throws InputError, naming
  /// file, data set, chunk and bytes, for a chunk that is damaged.
  void read_box(const Dims& offset, const Dims& count, Type type, void* dst) const;

 private:
  struct Part;
  void read_part(const Part& part, std::int64_t number, bool partial, Type type, char* dst) const;
  const char* load(const Part& part, const ChunkPlace& place, bool partial, char* direct) const;
  [[noreturn]] void refuse_chunk(const ChunkPlace& place, const std::string& why) const;

  ChunkFacts facts_;
  RawFile file_;
};

/// The data sets in chunks of an open file, found when they are first read.
class ChunkedDataOfFile {
 public:
  /// Null: the library must read this data set. `make` is called if nothing is known about it yet.
  template <class Make>
  std::shared_ptr<const ChunkedData> find(const std::string& name, const Make& make) {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(name);
    if (known != known_.end()) return known->second;
    return known_.emplace(name, make()).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const ChunkedData>> known_;
};

}  // namespace keelson::hdf5::detail
