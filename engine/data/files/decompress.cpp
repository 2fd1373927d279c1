#include "engine/data/files/decompress.hpp"

#include <zlib.h>

#include <algorithm>
#include <memory>

#if KEELSON_HAVE_LIBDEFLATE
#include <libdeflate.h>
#endif

#include "engine/base/error.hpp"

namespace keelson {
namespace {

constexpr unsigned char gzip_magic[] = {0x1f, 0x8b}, zlib_method = 0x78;
constexpr std::int64_t most_at_once = std::int64_t{1} << 30;  // bytes: zlib counts in 32 bits

/// zlib's state, which is freed in the end.
class Inflater {
 public:
  /// `what`: for a message. `window`: inflateInit2()'s windowBits, which chooses the format.
  Inflater(const std::string& what, int window) {
    if (inflateInit2(&stream_, window) != Z_OK) fail("{}: zlib cannot be started", what);
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
  const std::int64_t size = file.size();
  constexpr int gzip_or_zlib = 32 + MAX_WBITS;
  Inflater z(file.path(), gzip_or_zlib);
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
    const std::size_t room = std::min(out.size() - made, static_cast<std::size_t>(most_at_once));
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

namespace {

InflateEnding inflate_by_zlib(std::span<const char> src, char* dst, std::int64_t bytes) {
  Inflater z("compressed data", MAX_WBITS);
  std::int64_t taken = 0, made = 0;
  const auto ending = [&](const std::string& why) { return InflateEnding{why, taken - std::int64_t{z->avail_in}}; };
  for (Bytef beyond = 0;;) {
    if (z->avail_in == 0) {
      const std::int64_t n = std::min(most_at_once, std::ssize(src) - taken);
      z->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(src.data() + taken));  // which zlib leaves unchanged
      z->avail_in = static_cast<uInt>(n);
      taken += n;
    }
    // Where all is written, zlib still has to find the end, and gets room for a byte that must not come.
    const std::int64_t room = std::min(most_at_once, bytes - made);
    z->next_out = room > 0 ? reinterpret_cast<Bytef*>(dst + made) : &beyond;
    z->avail_out = room > 0 ? static_cast<uInt>(room) : 1;
    const uInt before = z->avail_out;
    const int status = inflate(z.get(), Z_NO_FLUSH);
    made += before - z->avail_out;
    if (made > bytes) return ending("there is more than was expected");
    if (status == Z_STREAM_END) return ending(made == bytes ? "" : fmt::format("the data end after {} bytes", made));
    if (status != Z_OK && status != Z_BUF_ERROR) return ending(z->msg ? z->msg : "damaged data");
    if (status == Z_BUF_ERROR && taken == std::ssize(src)) return ending("the compressed data are cut off");
  }
}

}  // namespace

InflateEnding inflate_exactly(std::span<const char> src, char* dst, std::int64_t bytes) {
#if KEELSON_HAVE_LIBDEFLATE
  struct Free {
    void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
  };
  thread_local const std::unique_ptr<libdeflate_decompressor, Free> fast(libdeflate_alloc_decompressor());
  if (fast && libdeflate_zlib_decompress(fast.get(), src.data(), src.size(), dst, static_cast<std::size_t>(bytes),
                                         nullptr) == LIBDEFLATE_SUCCESS)
    return {};
  // Which says what is wrong.
#endif
  return inflate_by_zlib(src, dst, bytes);
}

}  // namespace keelson
