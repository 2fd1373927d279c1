#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "engine/base/error.hpp"
#include "engine/data/hdf5/detail/hdf5_chunks.hpp"

// Reading chunks without HDF5.
namespace keelson::hdf5::detail {
namespace {

template <class T>
T load_element(const char* src, bool swapped) {
  std::array<char, sizeof(T)> bytes;
  std::memcpy(bytes.data(), src, sizeof(T));
  if (swapped) std::ranges::reverse(bytes);
  return std::bit_cast<T>(bytes);
}

/// As HDF5 converts: doubles beyond the range of float become infinite.
template <class D, class S>
D converted(S value) {
  if constexpr (std::is_same_v<S, double> && std::is_same_v<D, float>) {
    constexpr double most = std::numeric_limits<float>::max();
    if (value > most) return std::numeric_limits<float>::infinity();
    if (value < -most) return -std::numeric_limits<float>::infinity();
  }
  return static_cast<D>(value);
}

/// Rows of elements: `run` elements that are contiguous, or the same element (step 0); and so many bytes from one row
/// to the next.
struct ElementRows {
  const char* src;
  char* dst;
  std::int64_t rows, run, src_row, dst_row, step = 1;
  bool swapped = false;
};

template <class S, class D>
void convert_rows(const ElementRows& r) {
  constexpr std::int64_t worth = 64;  // bytes of a call of memcpy
  if (std::is_same_v<S, D> && !r.swapped && r.step == 1 && r.run * std::int64_t{sizeof(S)} >= worth) {
    for (std::int64_t i = 0; i < r.rows; ++i)
      std::memcpy(r.dst + i * r.dst_row, r.src + i * r.src_row, static_cast<std::size_t>(r.run) * sizeof(S));
    return;
  }
  const auto each = [&](bool swap) {
    for (std::int64_t i = 0; i < r.rows; ++i) {
      const char* from = r.src + i * r.src_row;
      char* to = r.dst + i * r.dst_row;
      for (std::int64_t k = 0; k < r.run; ++k, from += r.step * std::int64_t{sizeof(S)}, to += sizeof(D)) {
        const D value = converted<D>(load_element<S>(from, swap));
        std::memcpy(to, &value, sizeof(D));
      }
    }
  };
  r.swapped ? each(true) : each(false);
}

using Convert = void (*)(const ElementRows& rows);

template <class S>
Convert conversion_from(Type to) {
  if (to == type_of<S>()) return convert_rows<S, S>;
  return to == Type::f32 ? convert_rows<S, float> : convert_rows<S, double>;
}

Convert conversion(Type from, Type to) {
  constexpr std::array by_type{conversion_from<std::int8_t>,  conversion_from<std::uint8_t>,
                               conversion_from<std::int16_t>, conversion_from<std::uint16_t>,
                               conversion_from<std::int32_t>, conversion_from<std::uint32_t>,
                               conversion_from<std::int64_t>, conversion_from<std::uint64_t>};
  if (from == Type::f32) return conversion_from<float>(to);
  if (from == Type::f64) return conversion_from<double>(to);
  return by_type.at(static_cast<std::size_t>(from))(to);
}

/// Calls visit(index) for each index from `begin` to below `end`, in row-major order.
template <class Visit>
void for_each_index(const Dims& begin, const Dims& end, const Visit& visit) {
  for (Dims at = begin;;) {
    visit(at);
    std::size_t d = at.size();
    while (d > 0 && ++at[d - 1] == end[d - 1]) {
      at[d - 1] = begin[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

Dims row_major_steps(const Dims& shape) {
  Dims steps(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) steps[d - 1] = steps[d] * shape[d];
  return steps;
}

/// Memory of a thread for a chunk: as stored, and between filters.
struct ChunkMemory {
  Scratch stored;
  std::array<Scratch, 2> between;
};

ChunkMemory& chunk_memory() {
  thread_local ChunkMemory memory;
  return memory;
}

}  // namespace

/// The common part of a box and a chunk.
struct ChunkedData::Part {
  Dims begin, extent;     ///< within the chunk
  Dims steps, box_steps;  ///< elements from one index to the next, in the chunk and in the box
  std::int64_t to = 0;    ///< place of the first element in the box
  /// Elements that are contiguous in the chunk and in the box: those of the dimensions from `inner` on.
  std::int64_t run = 1;
  std::size_t inner = 0;

  std::int64_t first() const {
    std::int64_t place = 0;
    for (std::size_t d = 0; d < begin.size(); ++d) place += begin[d] * steps[d];
    return place;
  }
  /// Elements of the chunk from the first to the last of this part.
  std::int64_t span() const {
    std::int64_t n = 1;
    for (std::size_t d = 0; d < extent.size(); ++d) n += (extent[d] - 1) * steps[d];
    return n;
  }
  bool contiguous() const {
    return std::all_of(extent.begin(), extent.begin() + static_cast<std::ptrdiff_t>(inner),
                       [](auto n) { return n == 1; });
  }
  void find_run(const Dims& chunk, const Dims& count) {
    run = 1;
    inner = extent.size();
    for (bool whole = true; inner > 0 && whole;) {
      --inner;
      run *= extent[inner];
      whole = extent[inner] == chunk[inner] && extent[inner] == count[inner];
    }
  }
  /// Calls visit(rows, place in the chunk behind first(), place in the part of the box) for the rows of dimension
  /// inner - 1, each of `run` elements.
  template <class Visit>
  void for_each_rows(const Visit& visit, std::size_t d = 0, std::int64_t from = 0, std::int64_t at = 0) const {
    if (d + 1 >= inner) return visit(inner == 0 ? 1 : extent[d], from, at);
    for (std::int64_t i = 0; i < extent[d]; ++i)
      for_each_rows(visit, d + 1, from + i * steps[d], at + i * box_steps[d]);
  }
};

void ChunkedData::read_box(const Dims& offset, const Dims& count, Type type, void* dst) const {
  KEELSON_EXPECT(converts_to(type));
  const std::size_t dims = facts_.shape.size();
  if (std::ranges::count(count, 0) > 0) return;
  Part part{Dims(dims), Dims(dims), row_major_steps(facts_.chunk), row_major_steps(count)};
  Dims first(dims), last(dims);  // chunks
  for (std::size_t d = 0; d < dims; ++d) {
    first[d] = offset[d] / facts_.chunk[d];
    last[d] = (offset[d] + count[d] - 1) / facts_.chunk[d] + 1;
  }
  for_each_index(first, last, [&](const Dims& at) {
    std::int64_t number = 0;
    bool partial = false;
    part.to = 0;
    for (std::size_t d = 0; d < dims; ++d) {
      const std::int64_t origin = at[d] * facts_.chunk[d];
      number = number * facts_.grid[d] + at[d];
      partial = partial || origin + facts_.chunk[d] > facts_.shape[d];
      part.begin[d] = std::max<std::int64_t>(0, offset[d] - origin);
      part.extent[d] = std::min(facts_.chunk[d], offset[d] + count[d] - origin) - part.begin[d];
      part.to += (origin + part.begin[d] - offset[d]) * part.box_steps[d];
    }
    part.find_run(facts_.chunk, count);
    read_part(part, number, partial, type, static_cast<char*>(dst));
  });
  constexpr std::int64_t kept = std::int64_t{64} << 20;  // bytes of each memory, until the thread's next read
  auto& memory = chunk_memory();
  memory.stored.shrink(kept);
  for (auto& m : memory.between) m.shrink(kept);
}

void ChunkedData::read_part(const Part& part, std::int64_t number, bool partial, Type type, char* dst) const {
  const std::int64_t from_bytes = size_of(facts_.type), to_bytes = size_of(type);
  const auto found = std::ranges::lower_bound(facts_.places, number, {}, &ChunkPlace::number);
  const bool written = found != facts_.places.end() && found->number == number;
  char* const to = dst + part.to * to_bytes;
  const bool as_stored = type == facts_.type && !facts_.swapped;
  char* const direct = as_stored && part.contiguous() ? to : nullptr;
  const char* const src = written ? load(part, *found, partial, direct) : facts_.fill.data();
  if (src == direct) return;
  const auto convert = conversion(facts_.type, type);
  const std::size_t row = part.inner == 0 ? 0 : part.inner - 1;
  part.for_each_rows([&](std::int64_t rows, std::int64_t from, std::int64_t at) {
    ElementRows r{src, to + at * to_bytes, rows, part.run, 0, part.box_steps[row] * to_bytes, 0, false};
    if (written) {
      r.src = src + from * from_bytes;
      r.src_row = part.steps[row] * from_bytes;
      r.step = 1;
      r.swapped = facts_.swapped;
    }
    convert(r);
  });
}

/// The elements of a chunk, from the part's first one to its last. `direct`: null, or memory for the part, if it is
/// contiguous; the result may lie there.
const char* ChunkedData::load(const Part& part, const ChunkPlace& place, bool partial, char* direct) const {
  const std::int64_t element = size_of(facts_.type), all = facts_.chunk_elements() * element;
  const std::int64_t first = part.first() * element, bytes = part.span() * element;
  auto& memory = chunk_memory();
  const auto filters = partial && facts_.partial_unfiltered ? std::span<const ChunkFilter>() : facts_.filters;
  bool filtered = false;
  for (std::size_t i = 0; i < filters.size(); ++i) filtered = filtered || (place.skipped >> i & 1u) == 0;
  if (!filtered) {
    if (place.bytes != all)
      refuse_chunk(place, fmt::format("there are {} bytes. Expected {}, those of a chunk", place.bytes, all));
    char* const to = direct ? direct : memory.stored.get(bytes);
    file_.read(to, bytes, place.offset + first);
    return to;
  }
  char* const stored = memory.stored.get(place.bytes);
  file_.read(stored, place.bytes, place.offset);
  try {
    char* const to = bytes == all ? direct : nullptr;  // filters leave whole chunks
    return first + undo_filters({filters, place.skipped, all}, {stored, static_cast<std::size_t>(place.bytes)},
                                memory.between, to);
  } catch (const InputError& error) {
    refuse_chunk(place, error.what());
  }
}

void ChunkedData::refuse_chunk(const ChunkPlace& chunk, const std::string& why) const {
  Dims at(facts_.grid.size());
  auto rest = chunk.number;
  for (std::size_t d = at.size(); d-- > 0; rest /= facts_.grid[d]) at[d] = rest % facts_.grid[d] * facts_.chunk[d];
  refuse(
      "{}: the chunk at {}, bytes {} to {} of the file, cannot be read: {}. Is the copy complete? Fetch or make it "
      "again",
      place(facts_.path, facts_.name), to_string(at), chunk.offset, chunk.offset + chunk.bytes, why);
}

}  // namespace keelson::hdf5::detail
