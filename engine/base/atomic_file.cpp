#include "engine/base/atomic_file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/base/process.hpp"

namespace keelson {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view mark = ".partial-";

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

[[noreturn]] void give_up(const fs::path& path, int why) {
  fail("cannot write {}{}; the old content is unchanged", path.string(), reason_of_writing(why, folder_of(path)));
}

/// An open file descriptor.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

/// Makes writing into a pipe whose reader has ended an error (EPIPE) instead of a signal that ends the program.
class NoBrokenPipeSignal {
 public:
  NoBrokenPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipeSignal() {
    const timespec at_once{};
    if (sigismember(&before_, SIGPIPE) == 0) sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipeSignal(const NoBrokenPipeSignal&) = delete;

 private:
  sigset_t pipe_{}, before_{};
};

/// False: could not write all bytes; errno has the reason.
bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

/// The links of /proc/PID/fd name open files, also files without a path.
bool is_open_file(const fs::path& link) {
  std::error_code error;
  const auto folder = fs::canonical(folder_of(link), error);
  return !error && folder.filename() == "fd" && folder.string().starts_with("/proc/");
}

/// Follows symbolic links in the last part of the path; the target need not exist. Stops at /dev/stdout and similar
/// paths.
fs::path behind_links(fs::path path) {
  constexpr int most = 40;  // the limit of Linux
  std::error_code error;
  for (int i = 0; i < most && fs::is_symlink(fs::symlink_status(path, error)) && !is_open_file(path); ++i) {
    const auto to = fs::read_symlink(path, error);
    if (error) break;
    path = to.is_absolute() ? to : folder_of(path) / to;
  }
  return path;
}

bool is_hdf5(const fs::path& path) {
  constexpr std::string_view signature("\x89HDF\r\n\x1a\n", 8);
  std::array<char, 8> begin{};
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
  return file.fd >= 0 && ::read(file.fd, begin.data(), begin.size()) == std::ssize(begin) &&
         std::string_view(begin.data(), begin.size()) == signature;
}

/// Files that the command reads, as absolute paths.
struct Inputs {
  std::mutex mutex;
  std::vector<fs::path> files;
};

Inputs& inputs() {
  static Inputs all;
  return all;
}

/// The input that is this file, under any name; empty: none.
fs::path input_that_is(const fs::path& file) {
  Inputs& all = inputs();
  const std::lock_guard lock(all.mutex);
  std::error_code ignored;
  const auto found = std::ranges::find_if(all.files, [&](const auto& f) { return fs::equivalent(f, file, ignored); });
  return found == all.files.end() ? fs::path() : *found;
}

void require_replaceable(const fs::path& path, Target target) {
  if (const auto input = input_that_is(path); !input.empty())
    refuse("{}: is an input of this command ({}), and writing would destroy it; choose another name", path.string(),
           input.string());
  if (target != Target::hdf5 && is_hdf5(path))
    refuse(
        "{}: is an HDF5 file, such as a checkpoint or data, and writing would destroy it; choose another name, or "
        "remove "
        "the file first",
        path.string());
}

/// Runs keep checkpoints in a folder of this name, and old checkpoints in folders inside it.
bool lies_with_checkpoints(const fs::path& file) {
  std::error_code error;
  const auto folder = fs::weakly_canonical(fs::absolute(folder_of(file), error), error);
  const bool aside = folder.filename().string().starts_with("abandoned-");
  return (aside ? folder.parent_path() : folder).filename() == "checkpoints";
}

fs::path temporary_of(const fs::path& path) {
  return folder_of(path) / fmt::format(".{}{}{}-{}", path.filename().string(), mark, host_name(), ::getpid());
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& path, Target target) : given_(path), path_(behind_links(path)) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (fs::is_directory(status)) refuse("{}: is a folder; expected the name of a file", path.string());
  special_ = fs::exists(status) && (!fs::is_regular_file(status) || is_open_file(path_));
  if (special_ && target != Target::output)
    refuse("{}: is a pipe or a device; expected a regular file, or none: remove it", path.string());
  if (fs::is_regular_file(status)) require_replaceable(path, target);
  if (target == Target::output && !special_ && lies_with_checkpoints(path_))
    refuse("{}: is in a folder of checkpoints, where only runs write; choose another folder", path.string());
  temporary_ = temporary_of(special_ ? fs::temp_directory_path() / path_.filename() : path_);
}

AtomicFile::~AtomicFile() {
  if (!done_) ::unlink(temporary_.c_str());
}

void AtomicFile::copy_out() const {
  const NoBrokenPipeSignal no_signal;
  const Descriptor from{::open(temporary_.c_str(), O_RDONLY | O_CLOEXEC)};
  if (from.fd < 0) give_up(given_, errno);
  // A file that this process has open is written from its current position, like a shell's redirection.
  const auto number = is_open_file(path_) && fs::equivalent(folder_of(path_), "/proc/self/fd")
                          ? parse_number<int>(path_.filename().string())
                          : std::nullopt;
  const Descriptor to{number ? ::dup(*number) : ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)};
  if (to.fd < 0) fail("cannot write into {}: {}", given_.string(), std::strerror(errno));
  std::vector<char> part(1 << 16);
  for (;;) {
    const auto n = ::read(from.fd, part.data(), part.size());
    if (n == 0) return;
    if (n < 0 || !write_all(to.fd, {part.data(), static_cast<std::size_t>(n)}))
      fail("cannot write the whole content into {}: {}", given_.string(), std::strerror(errno));
  }
}

void AtomicFile::commit() {
  if (special_) return copy_out();
  {
    const Descriptor file{::open(temporary_.c_str(), O_RDONLY | O_CLOEXEC)};
    if (file.fd < 0 || ::fsync(file.fd) != 0) give_up(given_, errno);
  }
  commit_unsynced();
  const Descriptor folder{::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (folder.fd >= 0) ::fsync(folder.fd);  // some file systems refuse this for folders; the rename itself has succeeded
}

void AtomicFile::commit_unsynced() {
  KEELSON_EXPECT(!special_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) give_up(given_, errno);
  done_ = true;
}

void write_atomically(const fs::path& path, std::string_view text, Target target) {
  AtomicFile file(path, target);
  {
    const Descriptor out{::open(file.temporary().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
    if (out.fd < 0 || !write_all(out.fd, text)) give_up(path, errno);
  }
  file.commit();
}

void link_atomically(const fs::path& file, const fs::path& link) {
  const auto temporary = temporary_of(link);
  std::error_code e;
  if (fs::is_other(fs::symlink_status(link, e)))
    refuse("{}: is a pipe or a device; expected a regular file, or none: remove it", link.string());
  fs::remove(temporary, e);
  fs::create_hard_link(file, temporary, e);
  if (e) fs::copy_file(file, temporary, fs::copy_options::overwrite_existing, e);
  if (!e) fs::rename(temporary, link, e);
  const int why = e.value();
  fs::remove(temporary, e);  // rename() does nothing if both names belong to the same file
  if (why != 0) give_up(link, why);
}

void protect_input(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return;
  const auto path = fs::absolute(file, error);
  Inputs& all = inputs();
  const std::lock_guard lock(all.mutex);
  if (!error && std::ranges::find(all.files, path) == all.files.end()) all.files.push_back(path);
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
