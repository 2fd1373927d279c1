#include <algorithm>
#include <exception>
#include <limits>

#include "engine/base/error.hpp"
#include "engine/data/hdf5/detail/hdf5_chunks.hpp"

// What HDF5 knows about the chunks of a data set.
namespace keelson::hdf5::detail {
namespace {

/// The filters, if all of them can be undone without the library.
std::optional<std::vector<ChunkFilter>> known_filters(hid_t creation) {
  using Kind = ChunkFilter::Kind;
  std::vector<ChunkFilter> filters;
  const int n = H5Pget_nfilters(creation);
  if (n < 0 || n > 32) return std::nullopt;  // a chunk's mask has 32 bits
  for (int i = 0; i < n; ++i) {
    unsigned flags = 0, configuration = 0, values[8] = {};
    std::size_t count = std::size(values);
    const auto filter =
        H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &count, values, 0, nullptr, &configuration);
    if (filter == H5Z_FILTER_DEFLATE)
      filters.push_back({Kind::deflate});
    else if (filter == H5Z_FILTER_SHUFFLE && count >= 1 && values[0] >= 1)
      filters.push_back({Kind::shuffle, values[0]});
    else if (filter == H5Z_FILTER_FLETCHER32)
      filters.push_back({Kind::fletcher32});
    else
      return std::nullopt;
  }
  // Of data that were compressed twice, nobody knows the size in between.
  if (std::ranges::count(filters, Kind::deflate, &ChunkFilter::kind) > 1) return std::nullopt;
  return filters;
}

/// Sets type and byte order. False: the elements are unusual.
bool find_type(hid_t type, ChunkFacts& facts) {
  facts.type = classify(type);
  if (facts.type == Type::other || facts.type == Type::f16) return false;
  if (H5Tequal(type, native(facts.type)) > 0) return true;
  facts.swapped = true;
  const Handle other(H5Tcopy(native(facts.type)), H5Tclose);
  H5Tset_order(other, H5Tget_order(other) == H5T_ORDER_LE ? H5T_ORDER_BE : H5T_ORDER_LE);
  return H5Tequal(type, other) > 0;
}

/// Sets the numbers of chunks. False: there are more than can be counted.
bool find_grid(ChunkFacts& facts) {
  std::int64_t chunks = 1, elements = 1;
  for (std::size_t d = 0; d < facts.shape.size(); ++d) {
    if (facts.shape[d] < 0 || facts.chunk[d] <= 0) return false;
    facts.grid.push_back(facts.shape[d] / facts.chunk[d] + (facts.shape[d] % facts.chunk[d] != 0 ? 1 : 0));
    if (__builtin_mul_overflow(chunks, facts.grid[d], &chunks) ||
        __builtin_mul_overflow(elements, facts.chunk[d], &elements))
      return false;
  }
  return elements <= std::numeric_limits<std::int64_t>::max() / 16;
}

[[maybe_unused]] std::string where(const ChunkFacts& facts) { return place(facts.path, facts.name); }

#if H5_VERSION_GE(1, 10, 5)

/// Takes a chunk from HDF5's index.
void add_chunk(ChunkFacts& facts, const hsize_t* first, unsigned skipped, haddr_t at, hsize_t bytes,
               std::int64_t file_bytes) {
  ChunkPlace chunk{.number = 0,
                   .offset = static_cast<std::int64_t>(at),
                   .bytes = static_cast<std::int64_t>(bytes),
                   .skipped = skipped};
  for (std::size_t d = 0; d < facts.shape.size(); ++d) {
    if (first[d] >= static_cast<hsize_t>(facts.shape[d]) || first[d] % static_cast<hsize_t>(facts.chunk[d]) != 0)
      refuse(
          "{}: HDF5's index has a chunk that does not lie in the shape {}. Is the copy complete? Fetch or make it "
          "again",
          where(facts), to_string(facts.shape));
    chunk.number = chunk.number * facts.grid[d] + static_cast<std::int64_t>(first[d]) / facts.chunk[d];
  }
  if (chunk.offset < 0 || chunk.bytes <= 0 || chunk.offset > file_bytes || chunk.bytes > file_bytes - chunk.offset)
    refuse(
        "{}: the chunk at {} has {} bytes from byte {} on, but the file has {}. Is the copy complete? Fetch or make "
        "it again",
        where(facts), to_string(Dims(first, first + facts.shape.size())), bytes, at, file_bytes);
  facts.places.push_back(chunk);
}

#if H5_VERSION_GE(1, 14, 1)

bool find_places(hid_t dataset, ChunkFacts& facts, std::int64_t file_bytes) {
  struct Walk {
    ChunkFacts& facts;
    std::int64_t file_bytes;
    std::exception_ptr error;
  } walk{facts, file_bytes, nullptr};
  const auto take = [](const hsize_t* first, unsigned skipped, haddr_t at, hsize_t bytes, void* data) -> int {
    auto& w = *static_cast<Walk*>(data);
    try {  // exceptions must not pass through a C library
      add_chunk(w.facts, first, skipped, at, bytes, w.file_bytes);
      return H5_ITER_CONT;
    } catch (...) {
      w.error = std::current_exception();
      return H5_ITER_ERROR;
    }
  };
  const auto status = H5Dchunk_iter(dataset, H5P_DEFAULT, take, &walk);
  if (walk.error) std::rethrow_exception(walk.error);
  if (status < 0) refuse("{}: HDF5's index of chunks cannot be read ({})", where(facts), innermost_reason());
  return true;
}

#else

/// HDF5 before 1.14.1 searches its index from the beginning for each chunk.
bool find_places(hid_t dataset, ChunkFacts& facts, std::int64_t file_bytes) {
  constexpr std::int64_t most = 4096;
  const auto chunks = DatasetInfo{.shape = facts.grid}.elements();
  if (chunks > most) return false;
  std::vector<hsize_t> first(facts.shape.size());
  for (std::int64_t number = 0; number < chunks; ++number) {
    auto rest = number;
    for (std::size_t d = first.size(); d-- > 0; rest /= facts.grid[d])
      first[d] = static_cast<hsize_t>(rest % facts.grid[d] * facts.chunk[d]);
    unsigned skipped = 0;
    haddr_t at = HADDR_UNDEF;
    hsize_t bytes = 0;
    if (H5Dget_chunk_info_by_coord(dataset, first.data(), &skipped, &at, &bytes) < 0)
      refuse("{}: HDF5's index of chunks cannot be read ({})", where(facts), innermost_reason());
    if (at != HADDR_UNDEF) add_chunk(facts, first.data(), skipped, at, bytes, file_bytes);
  }
  return true;
}

#endif
#else

bool find_places(hid_t, ChunkFacts&, std::int64_t) { return false; }  // HDF5 before 1.10.5 does not tell

#endif

bool find_fill(hid_t creation, ChunkFacts& facts) {
  H5D_fill_value_t status{};
  H5D_fill_time_t when{};
  return H5Pget_fill_time(creation, &when) >= 0 && when != H5D_FILL_TIME_NEVER &&
         H5Pfill_value_defined(creation, &status) >= 0 && status != H5D_FILL_VALUE_UNDEFINED &&
         H5Pget_fill_value(creation, native(facts.type), facts.fill.data()) >= 0;
}

/// Whether the elements lie in the file `path`, where HDF5's addresses are positions.
bool lies_plainly_in(hid_t dataset, const std::string& path) {
  const Handle file(H5Iget_file_id(dataset), H5Fclose);
  const Handle creation(H5Fget_create_plist(file), H5Pclose);
  hsize_t user_block = 1;
  return H5Pget_userblock(creation, &user_block) >= 0 && user_block == 0 && file_of(dataset) == path;
}

}  // namespace

std::int64_t ChunkFacts::chunk_elements() const { return DatasetInfo{.shape = chunk}.elements(); }

std::optional<ChunkFacts> chunk_facts(hid_t dataset, const std::string& path, const std::string& name) {
  const Handle creation(H5Dget_create_plist(dataset), H5Pclose), space(H5Dget_space(dataset), H5Sclose),
      type(H5Dget_type(dataset), H5Tclose);
  if (H5Pget_layout(creation) != H5D_CHUNKED || !lies_plainly_in(dataset, path)) return std::nullopt;
  ChunkFacts facts;
  facts.path = path;
  facts.name = name;
  facts.shape = extents(space);
  facts.chunk = chunk_shape(creation);
  const auto filters = known_filters(creation);
  unsigned options = 0;
  if (!filters || facts.chunk.size() != facts.shape.size() || !find_type(type, facts) || !find_grid(facts) ||
      !find_fill(creation, facts) || H5Pget_chunk_opts(creation, &options) < 0)
    return std::nullopt;
  facts.filters = *filters;
  facts.partial_unfiltered = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
  if (!find_places(dataset, facts, RawFile(path).size())) return std::nullopt;
  std::ranges::sort(facts.places, {}, &ChunkPlace::number);
  if (std::ranges::adjacent_find(facts.places, {}, &ChunkPlace::number) != facts.places.end())
    refuse("{}: HDF5's index has a chunk twice. Is the copy complete? Fetch or make it again", where(facts));
  return facts;
}

}  // namespace keelson::hdf5::detail
