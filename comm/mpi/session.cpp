#include <mpi.h>
#include <sched.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>
#include <utility>

#include "comm/communicators.hpp"
#include "comm/mpi/communicator.hpp"
#include "comm/mpi/support.hpp"
#include "comm/mpi/ulfm.hpp"
#include "comm/watch/call_limit.hpp"
#include "comm/watch/job_end.hpp"
#include "comm/watch/stall_detector.hpp"
#include "engine/base/backoff.hpp"
#include "engine/base/environment.hpp"
#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"

namespace keelson::comm {
namespace {

/// Tasks of the srun step of this process; 1 outside of a step, for example in a batch script.
int slurm_tasks() {
  if (environment("SLURM_STEP_ID").empty() || environment("SLURM_PROCID").empty()) return 1;
  return parse_number<int>(environment("SLURM_STEP_NUM_TASKS")).value_or(1);
}

bool wanted() {
  const std::string choice = environment("KEELSON_MPI");
  if (choice == "on") return true;
  if (choice == "off") return false;
  if (!choice.empty()) refuse("the environment variable KEELSON_MPI is '{}'; 'on' or 'off' is expected", choice);
  return !MpiSession::launched().empty();
}

MPI_Comm duplicate(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  detail::check(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  return copy;
}

}  // namespace

struct MpiSession::Impl {
  /// Uses `comm` for the end of the program from now on.
  void use(MPI_Comm comm);
  /// Waits for a request, at most `seconds` unless this is negative. Returns whether the request has ended. A wait
  /// without a limit is for ranks that are still at work: for rank 0, which may be writing a checkpoint, or, on rank 0,
  /// for the other ranks.
  bool complete(MPI_Request& request, double seconds);
  /// Whether all ranks are alive and passed `good`: the same answer on all ranks that are alive. Nothing if the wait
  /// took `seconds`.
  std::optional<bool> agree(bool good, double seconds);
  bool gather(const Outcome& mine, double seconds, std::vector<Outcome>& outcomes);

  bool owns = false;
  bool lost = false;  ///< ranks of control have died
  double grace = 2;
  WatchdogOptions watchdog;
  std::vector<std::string> names;                         ///< by rank in MPI_COMM_WORLD, as Communicator::name()
  MPI_Comm control = MPI_COMM_NULL;                       ///< only for the end of the program; null without MPI
  std::unique_ptr<detail::StallDetector> stall_detector;  ///< the stall detector of control
  std::uint64_t waits = 0;                                ///< waits for all ranks of control that have begun
  std::array<int, 3> own{};  ///< MPI may read and write these after conclude() has returned
  std::vector<int> all;
  int flag = 1;
};

std::string MpiSession::launched() {
  // Open MPI; PMIx and PMI launchers (srun, Hydra, Cray PALS and ALPS, Flux); MVAPICH; IBM JSM.
  constexpr std::array names{"OMPI_COMM_WORLD_SIZE",
                             "PMIX_RANK",
                             "PMI_RANK",
                             "PMI_SIZE",
                             "PMI_FD",
                             "PALS_RANKID",
                             "ALPS_APP_PE",
                             "FLUX_TASK_RANK",
                             "MV2_COMM_WORLD_SIZE",
                             "MPI_LOCALNRANKS",
                             "JSM_NAMESPACE_RANK"};
  for (const char* name : names)
    if (!environment(name).empty()) return name;
  return slurm_tasks() > 1 ? "SLURM_STEP_NUM_TASKS" : "";
}

MpiSession::MpiSession(double grace_seconds) : impl_(std::make_unique<Impl>()) {
  impl_->grace = grace_seconds;
  if (!detail::mpi_running() && !wanted()) return;
  impl_->watchdog = WatchdogOptions::from_environment();
  const detail::StartLimit limit;
  if (!detail::mpi_running()) {
    int provided = 0;
    detail::check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    impl_->owns = true;
    // A rank may die before the calls below are done: then they throw, where MPI would abort the program without a word
    // of this program.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (provided < MPI_THREAD_FUNNELED) fail("this MPI does not allow threads (MPI_THREAD_FUNNELED)");
  }
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm copy = duplicate(MPI_COMM_WORLD);
  impl_->names = detail::names_of(detail::gather_members(copy, rank));
  impl_->use(copy);
  MPI_Comm_size(impl_->control, &size);
  if (impl_->owns && size == 1 && slurm_tasks() > 1 && environment("OMPI_COMM_WORLD_SIZE").empty() &&
      environment("KEELSON_MPI").empty())
    refuse(
        "srun started {} tasks, but MPI sees each of them as a job of its own; try `srun --mpi=pmix` or mpirun, or set "
        "KEELSON_MPI=off if {} independent runs are meant",
        slurm_tasks(), slurm_tasks());
}

MpiSession::~MpiSession() {
  // MPI_Finalize waits for all ranks. While an exception passes on this rank, the other ranks may never come.
  if (!detail::mpi_running() || detail::left_unfinished() || std::uncaught_exceptions() > 0) return;
  detail::use_control(MPI_COMM_NULL, impl_->grace);
  impl_->stall_detector.reset();
  // If ranks have died, MPI_Finalize could wait for them for ever (seen in Open MPI 6.0.0rc2). The launcher accepts an
  // end without MPI_Finalize. All ranks have come to the end of conclude(). Where none has died they call MPI_Finalize,
  // since Open MPI may abort a rank that sees another one end without.
  if (impl_->owns && impl_->lost) return;
  if (impl_->control != MPI_COMM_NULL) MPI_Comm_free(&impl_->control);
  if (impl_->owns) MPI_Finalize();
}

bool MpiSession::active() const { return impl_->control != MPI_COMM_NULL; }

void MpiSession::Impl::use(MPI_Comm comm) {
  stall_detector.reset();
  if (control != MPI_COMM_NULL) MPI_Comm_free(&control);
  control = comm;
  std::vector<std::string> of_ranks;
  for (const int number : detail::translate_ranks(comm, MPI_COMM_WORLD))
    of_ranks.push_back(names.at(static_cast<std::size_t>(number)));
  waits = 0;
  stall_detector = std::make_unique<detail::StallDetector>(comm, std::move(of_ranks), watchdog);
  detail::use_control(comm, grace);
}

bool MpiSession::Impl::complete(MPI_Request& request, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  detail::Wait wait{.number = ++waits, .label = "the end of the program", .for_first_rank = rank != 0};
  for (;;) {
    int done = 0;
    detail::check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test", "end of the program");
    if (done) return true;
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    if (seconds >= 0 && waited.count() >= seconds) return false;
    if (seconds < 0 && waited.count() >= Backoff::late) stall_detector->poll(wait, waited.count());
    if (waited.count() < 0.001)
      sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

std::optional<bool> MpiSession::Impl::agree(bool good, double seconds) {
  if (!good) detail::ulfm::revoke(control);
  flag = good && !detail::ulfm::knows_of_loss(control) ? 1 : 0;
  MPI_Request request = MPI_REQUEST_NULL;
  bool alive = true;
  try {
    detail::check(detail::ulfm::start_agreement(control, &flag, &request), "MPIX_Comm_iagree");
    if (!complete(request, seconds)) return std::nullopt;
  } catch (const RanksLost&) {
    alive = false;
  }
  alive = alive && flag != 0;
  if (!alive) detail::ulfm::revoke(control);
  return alive;
}

/// Exchanges the outcomes. Returns false if the wait took `seconds`.
bool MpiSession::Impl::gather(const Outcome& mine, double seconds, std::vector<Outcome>& outcomes) {
  int size = 0, rank = 0;
  MPI_Comm_size(control, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  own = {mine.exit_code, static_cast<int>(mine.message.size()), rank};
  constexpr std::size_t width = std::tuple_size_v<decltype(own)>;
  all.assign(width * static_cast<std::size_t>(size), 0);
  MPI_Request request = MPI_REQUEST_NULL;
  detail::check(MPI_Iallgather(own.data(), width, MPI_INT, all.data(), width, MPI_INT, control, &request),
                "MPI_Iallgather");
  if (!complete(request, seconds)) return false;

  std::vector<int> count(static_cast<std::size_t>(size)), at(static_cast<std::size_t>(size) + 1, 0);
  for (std::size_t r = 0; r < count.size(); ++r) at[r + 1] = at[r] + (count[r] = all[width * r + 1]);
  std::string texts(static_cast<std::size_t>(at.back()), '\0');
  detail::check(MPI_Iallgatherv(mine.message.data(), own[1], MPI_CHAR, texts.data(), count.data(), at.data(), MPI_CHAR,
                                control, &request),
                "MPI_Iallgatherv");
  complete(request, -1);
  outcomes.resize(static_cast<std::size_t>(size));
  for (std::size_t r = 0; r < outcomes.size(); ++r)
    outcomes[r] = {all[width * r], texts.substr(static_cast<std::size_t>(at[r]), static_cast<std::size_t>(count[r])),
                   all[width * r + 2]};
  return true;
}

/// If ranks have died, the other ranks exchange their outcomes over a communicator without the dead ranks. Then they
/// agree that all have the outcomes, since another rank may die during the exchange.
std::optional<std::vector<Outcome>> MpiSession::conclude(const Outcome& mine) {
  if (!active()) return std::vector<Outcome>{mine};
  if (detail::left_unfinished()) return std::nullopt;
  const bool failed = mine.exit_code != 0 && !mine.message.empty();
  const double seconds = failed ? impl_->grace : -1;
  std::vector<Outcome> outcomes;
  if (!detail::ulfm::enabled())
    return impl_->gather(mine, seconds, outcomes) ? std::optional(std::move(outcomes)) : std::nullopt;
  for (;;) {
    const auto here = impl_->agree(true, seconds);
    if (!here) return std::nullopt;
    bool good = *here;
    try {
      if (good) impl_->gather(mine, -1, outcomes);
    } catch (const RanksLost&) {
      good = false;
    }
    if (impl_->agree(good, -1).value_or(false)) return outcomes;
    impl_->lost = true;
    const detail::CallLimit limit("making a group of the ranks that are left", impl_->watchdog.abort_seconds,
                                  detail::watchdog_advice);
    impl_->use(detail::ulfm::shrink(impl_->control));
  }
}

void MpiSession::abort(int exit_code) {
  detail::notify_failure(exit_code);
  detail::end_job(exit_code);
}

std::unique_ptr<Communicator> make_world(const WatchdogOptions& watchdog) {
  if (!detail::mpi_running()) return make_self();
  const detail::StartLimit limit;
  return detail::adopt(duplicate(MPI_COMM_WORLD), watchdog);
}

std::unique_ptr<Communicator> make_from_handle(int fortran_handle, const WatchdogOptions& watchdog) {
  if (!detail::mpi_running()) fail("make_from_handle needs MPI to be running");
  return detail::adopt(duplicate(MPI_Comm_f2c(fortran_handle)), watchdog);
}

}  // namespace keelson::comm
