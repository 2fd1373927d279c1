#include "apps/common/folder_lock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <thread>

#include "engine/base/atomic_file.hpp"
#include "engine/base/environment.hpp"
#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/base/small_file.hpp"
#include "engine/base/utc_time.hpp"

namespace keelson::app {
namespace fs = std::filesystem;
namespace {

constexpr const char* lock_name = "run.lock";

/// The contents of a lock file.
struct Holder {
  std::string token, since;
  Process process;
  std::string job, cluster;  ///< Slurm's job and cluster; empty: the process is not in a Slurm job
  std::int64_t user = -1;
  int restart = 0;  ///< how often Slurm had queued the job again

  std::string describe() const {
    return fmt::format("process {} on {}, since {}{}", process.number, process.host, since,
                       job.empty() ? "" : ", Slurm job " + job);
  }
};

std::string new_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

Holder current() {
  return {new_token(),
          utc_now(),
          Process::current(),
          environment("SLURM_JOB_ID"),
          environment("SLURM_CLUSTER_NAME"),
          ::geteuid(),
          parse_number<int>(environment("SLURM_RESTART_COUNT")).value_or(0)};
}

std::string to_text(const Holder& h) {
  const nlohmann::ordered_json j{{"token", h.token},
                                 {"since", h.since},
                                 {"host", h.process.host},
                                 {"boot", h.process.boot},
                                 {"numbering", h.process.numbering},
                                 {"process", h.process.number},
                                 {"started", h.process.started},
                                 {"slurm_job", h.job},
                                 {"slurm_cluster", h.cluster},
                                 {"user", h.user},
                                 {"slurm_restart", h.restart}};
  return j.dump(2) + "\n";
}

/// The holder that a lock file names; nothing if there is no such file. If the file cannot be parsed, the token is
/// empty.
std::optional<Holder> read(const fs::path& file) {
  const auto text = read_small_file(file.string());
  std::error_code error;
  if (!text && !fs::exists(file, error) && !error) return std::nullopt;
  try {
    const auto j = nlohmann::json::parse(text.value_or(""));
    const std::string token = j.at("token");
    if (token.find_first_not_of("0123456789abcdef") != token.npos) return Holder();
    const Process process{j.at("host"), j.at("boot"), j.at("numbering"), j.at("process"), j.at("started")};
    return Holder{token,        j.at("since"),        process, j.at("slurm_job"), j.at("slurm_cluster"),
                  j.at("user"), j.at("slurm_restart")};
  } catch (const nlohmann::json::exception&) {
    return Holder();
  }
}

/// Whether a job has ended, as Slurm says; unknown if Slurm does not say.
Life slurm_says(const std::string& job, bool own) {
  if (!parse_number<std::int64_t>(job)) return Life::unknown;
  const std::string command = "squeue --noheader --states=all --format=%T --jobs=" + job + " 2>&1";
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return Life::unknown;
  std::array<char, 256> line{};
  const bool told = std::fgets(line.data(), line.size(), pipe) != nullptr;
  const int status = ::pclose(pipe);
  const std::string state = told ? line.data() : "";
  if (state.find("Invalid job id") != std::string::npos)  // Slurm has forgotten the job, or hides other users' jobs
    return own ? Life::ended : Life::unknown;
  if (status != 0 || !told) return Life::unknown;
  for (const char* over : {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL",
                           "DEADLINE", "PREEMPTED"})
    if (state.starts_with(over)) return Life::ended;
  return Life::runs;
}

Life life_of(const Holder& older, const Holder& mine) {
  if (const auto life = life_of(older.process); life != Life::unknown) return life;
  if (older.job.empty() || older.cluster != mine.cluster) return Life::unknown;  // job numbers of another cluster
  // Slurm starts a job again only after the earlier start has ended.
  if (older.job == mine.job) return older.restart < mine.restart ? Life::ended : Life::unknown;
  return slurm_says(older.job, older.user == mine.user);
}

/// Makes a file with this text, unless a file of this name exists.
bool create(const fs::path& file, const std::string& text) {
  errno = 0;
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0 && errno == EEXIST) return false;
  const bool written = fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int why = errno != 0 ? errno : ENOSPC;  // a short write sets no errno
  if (fd >= 0) ::close(fd);
  if (fd >= 0 && !written) ::unlink(file.c_str());
  if (!written) fail("cannot write {}{}", file.string(), reason_of_writing(why, file.parent_path()));
  return true;
}

/// Throws InputError unless the process that made this file has ended.
void require_ended(const fs::path& folder, const fs::path& file, const Holder& older, const Holder& mine) {
  for (int i = 0; i < 10 && life_of(older.process) == Life::runs; ++i)  // it may have been killed a moment ago
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const Life life = older.token.empty() ? Life::unknown : life_of(older, mine);
  if (life == Life::ended) return;
  if (life == Life::runs)
    refuse("--out {}: is in use by {}; choose another folder, or end that run first", folder.string(),
           older.describe());
  refuse(
      "--out {}: is in use by {}, unless that process has ended. This machine cannot tell whether it still runs; "
      "choose another folder or, if you know that it has ended, remove {}",
      folder.string(), older.token.empty() ? "a process whose lock file cannot be read" : older.describe(),
      file.string());
}

}  // namespace

void FolderLock::check(const fs::path& folder) {
  const auto file = folder / lock_name;
  const auto older = read(file);
  if (older && !older->token.empty()) require_ended(folder, file, *older, current());
}

FolderLock::FolderLock(fs::path folder) : folder_(std::move(folder)) {
  const Holder mine = current();
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) fail("cannot make the folder {}: {}", folder_.string(), error.message());
  constexpr int most = 5;  // between two looks the holder may give the lock back, or die
  for (int attempt = 0; attempt < most; ++attempt) {
    if (create(file(), to_text(mine))) {
      token_ = mine.token;
      return;
    }
    const auto older = read(file());
    if (!older) continue;
    if (older->token.empty() && attempt + 1 < most) {  // perhaps another process is writing the file now
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      continue;
    }
    require_ended(folder_, file(), *older, mine);
    // If several processes find the same dead lock, the process that makes this file replaces the lock.
    const auto claim = folder_ / (".run.lock-after-" + older->token);
    if (!create(claim, to_text(mine))) {
      if (const auto other = read(claim)) require_ended(folder_, claim, *other, mine);
      fs::remove(claim, error);
      continue;
    }
    // Another process may have replaced the lock before this process made its file.
    const auto now = read(file());
    const bool still = now && now->token == older->token;
    if (still) write_atomically(file(), to_text(mine));
    fs::remove(claim, error);
    if (!still) continue;
    token_ = mine.token;
    return;
  }
  refuse("--out {}: another process takes and gives back {} all the time; choose another folder", folder_.string(),
         file().string());
}

FolderLock::FolderLock(fs::path folder, const std::string& token) : folder_(std::move(folder)), token_(token) {
  const auto holder = read(file());
  if (!holder || holder->token != token_)
    fail("{} {}. This run no longer knows whether the folder is its own, and ends without writing to it",
         file().string(), holder ? "is now of " + holder->describe() : "is gone");
  Holder mine = current();
  mine.token = token_;
  write_atomically(file(), to_text(mine));
}

void FolderLock::remove(const fs::path& folder, const std::string& token) {
  const auto holder = read(folder / lock_name);
  std::error_code error;
  if (holder && holder->token == token) fs::remove(folder / lock_name, error);
}

fs::path FolderLock::file() const { return folder_ / lock_name; }

FolderLock::~FolderLock() {
  std::error_code error;
  const auto holder = read(file());
  if (!holder || holder->token != token_ || holder->process != mine_) return;
  fs::remove(file(), error);
}

void FolderLock::require() const {
  const auto holder = read(file());
  if (holder && holder->token.empty()) return;  // the file system may fail for a moment
  if (holder && holder->token == token_ && holder->process == mine_) return;
  if (!holder)
    fail(
        "{} is gone: somebody has removed it or the folder. This run no longer knows whether the folder is its own, "
        "and ends without writing to it",
        file().string());
  fail("{} was taken over by {}. This run ends without writing to it", folder_.string(), holder->describe());
}

}  // namespace keelson::app
