#include "engine/data/files/raw_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "engine/base/error.hpp"

namespace keelson {

// O_NONBLOCK: without it, opening a pipe would wait for a writer. It has no effect on regular files.
RawFile::RawFile(const std::string& path)
    : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0)
    refuse("{}: cannot be opened: {}. Was it moved, or do its permissions forbid it?", path, std::strerror(errno));
  struct stat status{};
  if (fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode)) return;
  ::close(std::exchange(descriptor_, -1));
  refuse("{}: is a pipe, a device or a folder. Expected a regular file, which can be read from any place", path);
}

RawFile::~RawFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::int64_t RawFile::size() const {
  struct stat status{};
  if (fstat(descriptor_, &status) != 0) refuse("{}: cannot be inspected: {}", path_, std::strerror(errno));
  return status.st_size;
}

void RawFile::advise_sequential() const {
#ifdef POSIX_FADV_SEQUENTIAL
  posix_fadvise(descriptor_, 0, 0, POSIX_FADV_SEQUENTIAL);
#endif
}

void RawFile::advise_unneeded() const {
#ifdef POSIX_FADV_DONTNEED
  posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
#endif
}

namespace {

/// Whether the kernel's copy to this memory would be slow: AMD's Zen processors copy to an address that is 1 to 31
/// bytes behind that of the source, modulo the page size, at a third of the speed ("rep movsb"; measured on Zen 3).
bool copies_slowly(const void* dst, std::int64_t offset) {
  constexpr std::uintptr_t page = 4096, slow = 32;
  const std::uintptr_t distance = (reinterpret_cast<std::uintptr_t>(dst) - static_cast<std::uintptr_t>(offset)) % page;
  return distance > 0 && distance < slow;
}

/// Memory of this thread, at the beginning of a page.
struct alignas(4096) Bounce {
  std::array<char, std::size_t{1} << 16> bytes;
};

}  // namespace

void RawFile::read(void* dst, std::int64_t bytes, std::int64_t offset) const {
  constexpr std::int64_t worth = 4096;  // bytes
  if (bytes < worth || !copies_slowly(dst, offset)) return read_directly(dst, bytes, offset);
  thread_local const auto bounce = std::make_unique_for_overwrite<Bounce>();
  constexpr std::int64_t slack = 64;
  for (std::int64_t done = 0; done < bytes;) {
    // As far behind the beginning of a page as in the file, so that no copy is slow.
    char* const part = bounce->bytes.data() + (offset + done) % slack;
    const std::int64_t n = std::min(bytes - done, std::ssize(bounce->bytes) - slack);
    read_directly(part, n, offset + done);
    std::memcpy(static_cast<char*>(dst) + done, part, static_cast<std::size_t>(n));
    done += n;
  }
}

void RawFile::read_directly(void* dst, std::int64_t bytes, std::int64_t offset) const {
  for (std::int64_t done = 0; done < bytes;) {
    const auto n =
        ::pread(descriptor_, static_cast<char*>(dst) + done, static_cast<std::size_t>(bytes - done), offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) refuse("{}: cannot be read at byte {}: {}", path_, offset + done, std::strerror(errno));
    if (n == 0) {
      refuse(
          "{}: ends at byte {}. Expected data up to byte {}; was it cut off or changed while in use? Fetch or make it "
          "again",
          path_, size(), offset + bytes);
    }
    done += n;
  }
}

}  // namespace keelson
