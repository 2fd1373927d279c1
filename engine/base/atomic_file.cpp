#include "engine/base/atomic_file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/base/process.hpp"

namespace keelson {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view mark = ".partial-";

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

[[noreturn]] void give_up(const fs::path& path, int why) {
  fail("cannot write {}{}; what was there before is untouched", path.string(), reason_of_writing(why, folder_of(path)));
}

/// An open file descriptor.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  temporary_ = folder_of(path_) / fmt::format(".{}{}{}-{}", path_.filename().string(), mark, host_name(), ::getpid());
}

AtomicFile::~AtomicFile() {
  if (!done_) ::unlink(temporary_.c_str());
}

void AtomicFile::commit() {
  {
    const Descriptor file{::open(temporary_.c_str(), O_RDONLY | O_CLOEXEC)};
    if (file.fd < 0 || ::fsync(file.fd) != 0) give_up(path_, errno);
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) give_up(path_, errno);
  done_ = true;
  const Descriptor folder{::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (folder.fd >= 0) ::fsync(folder.fd);  // some file systems refuse this for folders; the rename itself has succeeded
}

void write_atomically(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  {
    const Descriptor out{::open(file.temporary().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
    if (out.fd < 0) give_up(path, errno);
    while (!text.empty()) {
      const auto n = ::write(out.fd, text.data(), text.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) give_up(path, errno);
      text.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  file.commit();
}

void link_atomically(const fs::path& file, const fs::path& link) {
  // Its destructor removes the new name again: renaming one name of a file onto another of the same file leaves both.
  const AtomicFile temporary(link);
  std::error_code e;
  fs::remove(temporary.temporary(), e);
  fs::create_hard_link(file, temporary.temporary(), e);
  if (e) fs::copy_file(file, temporary.temporary(), fs::copy_options::overwrite_existing, e);
  if (!e) fs::rename(temporary.temporary(), link, e);
  if (e) give_up(link, e.value());
}

void remove_temporaries(const fs::path& folder) {
  std::error_code e;
  for (const auto& entry : fs::directory_iterator(folder, e)) {
    const auto name = entry.path().filename().string();
    const auto end = name.rfind(mark), dash = name.rfind('-');
    if (!name.starts_with('.') || end == std::string::npos || dash < end + mark.size()) continue;
    const auto host = name.substr(end + mark.size(), dash - end - mark.size());
    const auto process = parse_number<pid_t>(name.substr(dash + 1));
    const bool ended = process && *process > 0 && ::kill(*process, 0) != 0 && errno == ESRCH;
    if (host == host_name() && ended) fs::remove(entry.path(), e);
  }
}

std::string reason_of_writing(int why, const fs::path& folder) {
  std::string text = fmt::format(": {}", std::strerror(why));
  if (why != ENOSPC && why != EDQUOT && why != EFBIG) return text;
  struct statvfs v{};
  if (::statvfs(folder.empty() ? "." : folder.c_str(), &v) != 0) return text;
  return text + fmt::format(", {:.1f} MB free in {}",
                            static_cast<double>(v.f_bavail) * static_cast<double>(v.f_frsize) / 1e6,
                            folder.empty() ? "." : folder.string());
}

}  // namespace keelson
