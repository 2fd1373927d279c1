#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "engine/base/error.hpp"
#include "engine/data/arrays/detail/array_forms.hpp"

/// Archives of NumPy: zip files (PKWARE's APPNOTE) of .npy files, stored (numpy.savez) or deflated
/// (numpy.savez_compressed).
namespace keelson::detail {
namespace {

template <class T>
T little(const char* p) {
  T n = 0;
  for (std::size_t i = sizeof(T); i-- > 0;) n = static_cast<T>(n << 8 | static_cast<unsigned char>(p[i]));
  return n;
}

/// A file in a zip file.
struct ZipEntry {
  std::string name;
  int method = 0;  ///< 0 stored, 8 deflated
  std::uint32_t crc = 0;
  std::int64_t stored = 0, size = 0, header = 0;  ///< bytes in the file, bytes when unpacked, place of its header
};

[[noreturn]] void refuse_zip(const RawFile& file, const std::string& why) {
  refuse("{}: begins as a zip file (.npz), but {}. Is the copy complete?", file.path(), why);
}

/// The central directory: its place and size.
std::pair<std::int64_t, std::int64_t> find_directory(const RawFile& file) {
  constexpr std::int64_t record = 22, most_comment = 65535, locator = 20;
  const std::int64_t size = file.size(), length = std::min(size, record + most_comment + locator);
  std::vector<char> tail(static_cast<std::size_t>(length));
  file.read(tail.data(), length, size - length);
  const std::string_view text(tail.data(), tail.size());
  const auto at = text.rfind(std::string_view("PK\x05\x06", 4));
  if (at == std::string_view::npos || std::ssize(text) - static_cast<std::int64_t>(at) < record)
    refuse_zip(file, "its list of files is missing");
  const char* const end = tail.data() + at;
  auto begin = std::int64_t{little<std::uint32_t>(end + 16)}, bytes = std::int64_t{little<std::uint32_t>(end + 12)};
  if (begin == UINT32_MAX || bytes == UINT32_MAX) {  // zip64
    char more[56];
    if (at < locator || std::memcmp(end - locator, "PK\x06\x07", 4) != 0)
      refuse_zip(file, "its list of files is missing");
    const auto place = static_cast<std::int64_t>(little<std::uint64_t>(end - locator + 8));
    if (place < 0 || place > size - std::ssize(more)) refuse_zip(file, "its list of files is missing");
    file.read(more, sizeof more, place);
    if (std::memcmp(more, "PK\x06\x06", 4) != 0) refuse_zip(file, "its list of files is missing");
    bytes = static_cast<std::int64_t>(little<std::uint64_t>(more + 40));
    begin = static_cast<std::int64_t>(little<std::uint64_t>(more + 48));
  }
  if (begin < 0 || bytes < 0 || begin > size || bytes > size - begin)
    refuse_zip(file, fmt::format("its list of files is said to begin at byte {} of {}", begin, size));
  return {begin, bytes};
}

/// Numbers that do not fit 4 bytes are in a field of their own.
void read_zip64(ZipEntry& entry, std::span<const char> extra) {
  while (extra.size() >= 4) {
    const std::size_t id = little<std::uint16_t>(extra.data()), length = little<std::uint16_t>(extra.data() + 2);
    extra = extra.subspan(4);
    if (length > extra.size()) return;
    if (id == 1) {
      std::span<const char> numbers = extra.first(length);
      for (std::int64_t* n : {&entry.size, &entry.stored, &entry.header})
        if (*n == UINT32_MAX && numbers.size() >= 8) {
          *n = static_cast<std::int64_t>(little<std::uint64_t>(numbers.data()));
          numbers = numbers.subspan(8);
        }
    }
    extra = extra.subspan(length);
  }
}

std::vector<ZipEntry> entries_of(const RawFile& file) {
  constexpr std::size_t fixed = 46;
  const auto [begin, bytes] = find_directory(file);
  std::vector<char> directory(static_cast<std::size_t>(bytes));
  file.read(directory.data(), bytes, begin);
  std::vector<ZipEntry> entries;
  for (std::size_t at = 0; at < directory.size();) {
    const char* const p = directory.data() + at;
    if (directory.size() - at < fixed || std::memcmp(p, "PK\x01\x02", 4) != 0)
      refuse_zip(file, "its list of files is damaged");
    const std::size_t name = little<std::uint16_t>(p + 28), extra = little<std::uint16_t>(p + 30),
                      comment = little<std::uint16_t>(p + 32);
    if (directory.size() - at - fixed < name + extra + comment) refuse_zip(file, "its list of files is damaged");
    ZipEntry e{.name = std::string(p + fixed, name),
               .method = little<std::uint16_t>(p + 10),
               .crc = little<std::uint32_t>(p + 16),
               .stored = little<std::uint32_t>(p + 20),
               .size = little<std::uint32_t>(p + 24),
               .header = little<std::uint32_t>(p + 42)};
    read_zip64(e, {p + fixed + name, extra});
    entries.push_back(std::move(e));
    at += fixed + name + extra + comment;
  }
  return entries;
}

/// The place of an entry's bytes.
std::int64_t begin_of(const RawFile& file, const ZipEntry& e, const std::string& where) {
  constexpr std::int64_t fixed = 30;
  const std::int64_t size = file.size();
  char header[fixed];
  const bool inside = e.header >= 0 && e.header <= size - fixed;
  if (inside) file.read(header, fixed, e.header);
  if (!inside || std::memcmp(header, "PK\x03\x04", 4) != 0)
    refuse("{}: is not where the list of files says, at byte {}. Is the copy complete?", where, e.header);
  const std::int64_t begin = e.header + fixed + little<std::uint16_t>(header + 26) + little<std::uint16_t>(header + 28);
  if (e.stored < 0 || e.size < 0 || begin > size || e.stored > size - begin)
    refuse("{}: has {} bytes from byte {} of a file of {} bytes. Is the copy complete?", where, e.stored, begin, size);
  return begin;
}

std::vector<char> inflate_entry(const RawFile& file, const ZipEntry& e, std::int64_t begin, const std::string& where) {
  // Deflate makes at most 1032 bytes of one: a larger size is a lie, for which no memory is to be taken.
  if (e.size / 1032 > e.stored)
    refuse("{}: is said to have {} bytes, unpacked from {}. Expected fewer. Is the file damaged?", where, e.size,
           e.stored);
  std::vector<char> packed(static_cast<std::size_t>(e.stored)), content(static_cast<std::size_t>(e.size));
  file.read(packed.data(), e.stored, begin);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) fail("{}: zlib cannot begin to unpack it", where);
  constexpr std::int64_t most = 1 << 30;
  std::int64_t in = 0, out = 0;
  int status = Z_OK;
  while (status == Z_OK) {
    const std::int64_t give = std::min(most, e.stored - in), room = std::min(most, e.size - out);
    stream.next_in = reinterpret_cast<Bytef*>(packed.data() + in);
    stream.next_out = reinterpret_cast<Bytef*>(content.data() + out);
    stream.avail_in = static_cast<uInt>(give);
    stream.avail_out = static_cast<uInt>(room);
    status = inflate(&stream, Z_NO_FLUSH);
    in += give - stream.avail_in;
    out += room - stream.avail_out;
  }
  inflateEnd(&stream);
  uLong crc = crc32(0, nullptr, 0);
  for (std::int64_t at = 0; at < out; at += most)
    crc = crc32(crc, reinterpret_cast<const Bytef*>(content.data() + at), static_cast<uInt>(std::min(most, out - at)));
  if (status != Z_STREAM_END || out != e.size || crc != e.crc)
    refuse("{}: cannot be unpacked: {}. Is the copy complete?", where,
           status == Z_STREAM_END && out == e.size ? "its checksum differs" : "its deflated bytes are damaged");
  return content;
}

/// The arrays. Those that are deflated are unpacked when they are asked for.
class NpzArrays final : public ArrayFile {
 public:
  explicit NpzArrays(RawFile file) : ArrayFile(file.path(), "NumPy (.npz)"), file_(std::move(file)) {
    for (auto& e : entries_of(file_))
      if (e.name.ends_with(".npy")) entries_.push_back(std::move(e));
    if (entries_.empty())
      refuse("{}: is a zip file without arrays. Expected files that end in .npy in it, as numpy.savez writes them",
             path());
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& e : entries_) names.push_back(name_of_array(e));
    return names;
  }
  bool has(const std::string& name) const override { return find(name) != nullptr; }
  std::vector<std::string> dimensions(const std::string& name) const override {
    if (!has(name)) refuse_name(*this, name);
    return {};
  }
  ArrayInfo info(const std::string& name) const override {
    const ZipEntry* const e = find(name);
    if (!e) refuse_name(*this, name);
    const std::string where = fmt::format("{}: '{}'", path(), name);
    const std::int64_t begin = begin_of(file_, *e, where);
    ArrayInfo array = e->method == 8 ? deflated(*e, begin, where) : stored(*e, begin, where);
    array.name = name;
    return array;
  }

 private:
  static std::string name_of_array(const ZipEntry& e) { return e.name.substr(0, e.name.size() - 4); }
  const ZipEntry* find(const std::string& name) const {
    const auto found = std::ranges::find(entries_, name, name_of_array);
    return found == entries_.end() ? nullptr : &*found;
  }
  ArrayInfo stored(const ZipEntry& e, std::int64_t begin, const std::string& where) const {
    if (e.method != 0 || e.stored != e.size)
      refuse("{}: is packed by method {}. Expected it stored or deflated: numpy.savez or numpy.savez_compressed", where,
             e.method);
    std::vector<char> first(static_cast<std::size_t>(std::min(e.size, npy_header_limit)));
    file_.read(first.data(), std::ssize(first), begin);
    ArrayInfo array = parse_npy(where, first, e.size);
    array.begin += begin;
    array.file = path();
    return array;
  }
  ArrayInfo deflated(const ZipEntry& e, std::int64_t begin, const std::string& where) const {
    const auto which = static_cast<std::size_t>(&e - entries_.data());
    const std::lock_guard lock(mutex_);
    contents_.resize(entries_.size());
    auto& content = contents_[which];
    if (!content) content = std::make_shared<const std::vector<char>>(inflate_entry(file_, e, begin, where));
    ArrayInfo array =
        parse_npy(where, {content->data(), static_cast<std::size_t>(std::min(e.size, npy_header_limit))}, e.size);
    array.content = content;
    return array;
  }

  RawFile file_;
  std::vector<ZipEntry> entries_;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const std::vector<char>>> contents_;
};

}  // namespace

std::unique_ptr<const ArrayFile> open_npz(RawFile file) { return std::make_unique<const NpzArrays>(std::move(file)); }

}  // namespace keelson::detail
