#include "engine/data/decompress.hpp"

#include <zlib.h>

#include <algorithm>

#include "engine/base/error.hpp"

namespace keelson {
namespace {

constexpr unsigned char gzip_magic[] = {0x1f, 0x8b}, zlib_method = 0x78;

/// zlib's state, which is freed in the end.
class Inflater {
 public:
  explicit Inflater(const std::string& path) {
    constexpr int gzip_or_zlib = 32 + MAX_WBITS;
    if (inflateInit2(&stream_, gzip_or_zlib) != Z_OK) fail("{}: zlib cannot be started", path);
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  z_stream* operator->() { return &stream_; }
  z_stream* get() { return &stream_; }

 private:
  z_stream stream_{};
};

}  // namespace

bool is_compressed_content(const RawFile& file) {
  unsigned char head[2];
  if (file.size() < std::ssize(head)) return false;
  file.read(head, sizeof head, 0);
  if (std::equal(std::begin(head), std::end(head), std::begin(gzip_magic))) return true;
  return head[0] == zlib_method && (head[0] * 256 + head[1]) % 31 == 0;
}

std::vector<char> decompress(const RawFile& file) {
  constexpr std::int64_t read_bytes = 1 << 18;
  constexpr std::size_t most_at_once = std::size_t{1} << 30;  // zlib counts in 32 bits
  const std::int64_t size = file.size();
  Inflater z(file.path());
  std::vector<unsigned char> in(static_cast<std::size_t>(std::min(size, read_bytes)));
  std::vector<char> out(static_cast<std::size_t>(2 * size));
  std::size_t made = 0;
  std::int64_t taken = 0;
  for (bool ended = false; !ended || z->avail_in > 0 || taken < size;) {
    if (z->avail_in == 0 && taken < size) {
      const std::int64_t n = std::min(read_bytes, size - taken);
      file.read(in.data(), n, taken);
      taken += n;
      z->next_in = in.data();
      z->avail_in = static_cast<uInt>(n);
    }
    if (ended) inflateReset(z.get());  // the next member of a gzip file
    if (made == out.size()) out.resize(2 * out.size());
    const std::size_t room = std::min(out.size() - made, most_at_once);
    z->next_out = reinterpret_cast<Bytef*>(out.data() + made);
    z->avail_out = static_cast<uInt>(room);
    const int status = inflate(z.get(), Z_NO_FLUSH);
    const std::size_t now = room - z->avail_out;
    made += now;
    ended = status == Z_STREAM_END;
    if (!ended && status != Z_OK && status != Z_BUF_ERROR)
      refuse("{}: cannot be decompressed at byte {}: {}. Fetch or make the file again", file.path(),
             taken - static_cast<std::int64_t>(z->avail_in), z->msg ? z->msg : "damaged data");
    if (!ended && now == 0 && z->avail_in == 0 && taken == size)
      refuse("{}: ends at byte {}, within compressed data. Was it cut off? Fetch or make the file again", file.path(),
             size);
  }
  out.resize(made);
  out.shrink_to_fit();
  return out;
}

}  // namespace keelson
