#include "comm/watch/job_end.hpp"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "comm/mpi/support.hpp"
#include "comm/mpi/ulfm.hpp"
#include "engine/base/error.hpp"
#include "engine/base/interrupt.hpp"
#include "engine/base/process.hpp"
#include "engine/base/small_file.hpp"

namespace keelson::comm::detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int tag_failed = 3;

std::atomic<bool> unfinished{false};
MPI_Comm control = MPI_COMM_NULL;
double grace_seconds = 2;

double since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

/// The exit code of a rank that has notified the others of its failure.
std::optional<int> received_failure() {
  if (control == MPI_COMM_NULL) return std::nullopt;
  int there = 0, code = 0;
  MPI_Status status;
  const int found = MPI_Iprobe(MPI_ANY_SOURCE, tag_failed, control, &there, &status);
  if (ulfm::is_loss(found)) {  // other ranks may still send an exit code
    ulfm::acknowledge(control);
    return std::nullopt;
  }
  check(found, "MPI_Iprobe", "end of the job");
  if (!there) return std::nullopt;
  check(MPI_Recv(&code, 1, MPI_INT, status.MPI_SOURCE, tag_failed, control, MPI_STATUS_IGNORE), "MPI_Recv",
        "end of the job");
  return code;
}

/// Seconds since this function first saw that a signal had asked this process to end; 0: no signal came.
double signalled_for() {
  static std::optional<Clock::time_point> first_seen;
  if (!Interrupt::requested()) return 0;
  if (!first_seen) first_seen = Clock::now();
  return since(*first_seen);
}

/// Whether other processes of the same launcher are still running on this machine.
bool has_others(std::int64_t launcher) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const auto& thread : fs::directory_iterator("/proc/" + std::to_string(launcher) + "/task", error)) {
    std::ifstream children(thread.path() / "children");
    for (std::int64_t child = 0; children >> child;) {
      const std::string stat = read_small_file("/proc/" + std::to_string(child) + "/stat").value_or("");
      const auto name_end = stat.rfind(") ");  // the state follows
      if (child != ::getpid() && name_end != stat.npos && stat[name_end + 2] != 'Z') return true;
    }
  }
  return false;
}

/// Whether this process is the first on this machine that tries to end the launcher's job.
bool claims_end_of(std::int64_t launcher) {
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return true;
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string name =
      "keelson ends " + std::to_string(launcher);  // after a 0: an abstract name, which ends with the process
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return ::bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 || errno != EADDRINUSE;
}

/// If MPI survives the death of processes, MPI_Abort does not end the job: Open MPI (6.0.0rc2) does not end a stopped
/// process, so that mpirun waits for this process for ever, and ends the other processes with its own exit codes. A
/// signal to mpirun ends all processes on all nodes in any state, and mpirun's exit code is then 1. So a job that must
/// end with another exit code first gets time to end by itself.
void end_by_launcher(int exit_code) {
  const auto mpirun = find_ancestor({"prterun", "mpirun", "mpiexec", "orterun"});
  if (mpirun == 0) return;
  if (exit_code != static_cast<int>(ExitCode::failure)) {
    const double patience = std::max(2.0, grace_seconds);
    for (const auto start = Clock::now(); has_others(mpirun) && since(start) < patience;)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (!has_others(mpirun)) return;
  }
  ::signal(SIGTERM, SIG_IGN);  // mpirun sends SIGTERM before SIGKILL
  // A second signal makes Open MPI's mpirun end at once, and sometimes crash.
  if (claims_end_of(mpirun)) ::kill(static_cast<pid_t>(mpirun), SIGTERM);
  // The others wait, too: MPI aborts the processes that are left, with an exit code of its own, when it hears that one
  // has ended with an error before mpirun has seen the signal.
  constexpr int enough = 10;
  std::this_thread::sleep_for(std::chrono::seconds(enough));
}

}  // namespace

void use_control(MPI_Comm comm, double grace) {
  control = comm;
  grace_seconds = grace;
}

void notify_failure(int exit_code) {
  static int code = 0;                       // static, since MPI may read both after this call
  static std::vector<MPI_Request> requests;  // NOLINT(cert-err58-cpp)
  if (control == MPI_COMM_NULL) return;
  code = exit_code;
  int rank = 0, size = 1;
  MPI_Comm_rank(control, &rank);
  MPI_Comm_size(control, &size);
  requests.reserve(static_cast<std::size_t>(size));
  for (int to = 0; to < size; ++to)
    if (to != rank) MPI_Isend(&code, 1, MPI_INT, to, tag_failed, control, &requests.emplace_back(MPI_REQUEST_NULL));
  constexpr double enough = 1;
  int sent = 0;
  for (const auto start = Clock::now(); !sent && since(start) < enough;) {
    sent = 1;
    for (MPI_Request& request : requests) {  // one by one, since a send to a dead rank fails
      int done = 0;
      if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) sent = 0;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void end_if_over(std::string_view label, double seconds, bool for_first_rank) {
  if (const auto code = received_failure()) {
    std::fflush(nullptr);
    // The first failure may have been on another node, from which mpirun cannot be signalled.
    if (ulfm::enabled() && *code == static_cast<int>(ExitCode::failure)) end_by_launcher(*code);
    std::_Exit(*code);
  }
  const double limit = std::max(1.0, 5 * grace_seconds);
  const double signalled = signalled_for();  // counts from the first call
  if (for_first_rank || seconds < limit || signalled < limit) return;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const bool speaks = rank == 0 || std::has_single_bit(static_cast<unsigned>(rank));  // only a few ranks report
  if (!speaks) end_job(static_cast<int>(ExitCode::failure));
  fmt::print(stderr,
             "error: rank {} ({}) has waited {:.0f} s for {} since it was signalled to end: another rank has probably "
             "ended or hangs. This rank ends without a checkpoint; the last one can be resumed\n",
             rank, host_name(), seconds, label);
  end_job(static_cast<int>(ExitCode::failure));
}

void end_without_mpi(int exit_code) {
  std::fflush(nullptr);
  if (ulfm::enabled()) end_by_launcher(exit_code);
  std::_Exit(exit_code);
}

void end_job(int exit_code) {
  if (ulfm::enabled()) end_without_mpi(exit_code);
  std::fflush(nullptr);
  // Open MPI's mpirun ends the other processes when one process ends with an error. Its message is shorter than for
  // MPI_Abort. Other launchers do not end the processes.
  const bool mpirun = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
  if (mpi_running() && (!mpirun || exit_code == 0)) MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

void leave_unfinished() { unfinished = true; }
bool left_unfinished() { return unfinished; }

}  // namespace keelson::comm::detail
