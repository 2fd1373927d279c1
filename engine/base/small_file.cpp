#include "engine/base/small_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace keelson {

std::optional<std::string> read_small_file(const std::string& path, std::size_t most) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  struct stat status{};
  std::string text;
  bool good = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && static_cast<std::size_t>(status.st_size) <= most;
  for (char part[4096]; good;) {
    const auto bytes = ::read(fd, part, sizeof part);
    if (bytes <= 0) {
      good = bytes == 0;
      break;
    }
    text.append(part, static_cast<std::size_t>(bytes));
    good = text.size() <= most;
  }
  ::close(fd);
  return good ? std::optional(text) : std::nullopt;
}

}  // namespace keelson
