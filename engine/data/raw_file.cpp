#include "engine/data/raw_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

void RawFile::read(void* dst, std::int64_t bytes, std::int64_t offset) const {
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
