#include "apps/common/spares.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <exception>
#include <string>
#include <vector>

#include "apps/common/restart.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/interrupt.hpp"

namespace keelson::app {
namespace {

using Clock = Restart::Clock;

/// How the work ended, on this rank or on all ranks that are left.
struct Attempt {
  ExitCode code = ExitCode::done;
  std::exception_ptr error;  ///< an error other than RanksLost
  bool done = true;          ///< false: ended with an error or with RanksLost
};

std::string describe(const std::vector<Recovery::Lost>& lost) {
  std::vector<std::string> names;
  for (const auto& [rank, host] : lost) names.push_back(fmt::format("{} ({})", rank, host));
  return fmt::format("{} {} {} lost", names.size() == 1 ? "rank" : "ranks", fmt::join(names, ", "),
                     names.size() == 1 ? "was" : "were");
}

class SpareRanks {
 public:
  SpareRanks(Launch& launch, int spares, const std::function<ExitCode(Launch&)>& work)
      : launch_(launch),
        world_(launch.world),
        ranks_(*world_.fault_tolerance()),
        trains_(world_.size() - spares),
        work_(work) {}

  ExitCode run() {
    for (;;) {
      restart_.spares = world_.size() - trains_;
      const bool trains = world_.rank() < trains_;
      // Must outlive the agreement, which ends the calls of ranks that still wait for others in this group.
      std::unique_ptr<Communicator> group;
      const Attempt attempt = work(trains, group);
      const auto ended = Clock::now();
      if (trains || !attempt.done ? ranks_.agree(attempt.done) : ranks_.wait_as_spare()) return attempt.code;
      group.reset();
      const bool again = regroup(attempt, trains, ended);
      if (attempt.error) std::rethrow_exception(attempt.error);
      if (!again) return attempt.code;
    }
  }

 private:
  Attempt work(bool trains, std::unique_ptr<Communicator>& group) {
    Attempt attempt;
    try {
      group = world_.split(trains ? 0 : -1, world_.rank());
      if (group) {
        Launch launch{*group,          launch_.placement, launch_.program, launch_.arguments,
                      launch_.machine, launch_.on_gpu,    &restart_};
        attempt.code = work_(launch);
      } else {
        Interrupt::install();  // the other ranks end with a checkpoint, and may need this rank until then
      }
    } catch (const RanksLost&) {
      attempt.done = false;
    } catch (...) {
      attempt.error = std::current_exception();
      attempt.done = false;
    }
    return attempt;
  }

  /// Makes the group of the ranks that are left. Returns whether the work must start again, the same on all ranks.
  bool regroup(const Attempt& attempt, bool trained, Clock::time_point ended) {
    std::vector<Recovery::Lost> lost;
    bool errors = false, done = false, trainers = false;
    for (;;) {
      try {
        const LostRanks now = ranks_.shrink();
        for (std::size_t i = 0; i < now.ranks.size(); ++i) lost.push_back({now.ranks[i], now.hosts[i]});
        std::array<std::int64_t, 3> any{attempt.error ? 1 : 0, attempt.done ? 0 : 1, trained ? 1 : 0};
        world_.allreduce(any.data(), any.size(), Reduction::max);
        errors = any[0] != 0;
        done = any[1] == 0;
        trainers = any[2] != 0;
        share(restart_.hint);
        share(restart_.last);
        share(restart_.token);
        auto folder = restart_.folder.path.string();
        share(folder);
        restart_.folder.path = folder;
        if (ranks_.agree(true)) break;
      } catch (const RanksLost&) {
        ranks_.agree(false);
      }
    }
    const bool over = errors || (done && trainers);
    if (over && world_.rank() == 0) restart_.remove_lost_lock();
    if (errors) return false;
    if (over) {
      if (!lost.empty() && world_.rank() == 0) fmt::print(stderr, "note: {} by the end of the run\n", describe(lost));
      return false;
    }
    require_enough(lost, trainers);
    if (!restart_.loss) restart_.loss = {.during = "the preparation of the run"};
    auto& all = restart_.loss->lost;  // also the ranks of an earlier loss, if training has not started again since
    all.insert(all.end(), lost.begin(), lost.end());
    restart_.loss->ranks = trains_;
    restart_.regrouped = Clock::now();
    restart_.loss->shrink = std::chrono::duration<double>(restart_.regrouped - ended).count();
    return true;
  }

  /// Copies the value of the first rank that has one: a rank that was a spare has none.
  void share(std::string& known) {
    const auto all = world_.allgather(known);
    const auto first = std::find_if(all.begin(), all.end(), [](const std::string& s) { return !s.empty(); });
    if (first != all.end()) known = *first;
  }

  void require_enough(const std::vector<Recovery::Lost>& lost, bool trainers) const {
    if (trainers && world_.size() >= trains_) return;
    if (!trainers)
      fail("{}: no rank that trained is left. To continue, start the command again with --resume", describe(lost));
    fail("{}; {} are left, but {} must train. Start the job again, with more --spares; {}", describe(lost),
         world_.size(), trains_,
         restart_.hint.empty() ? "training had not begun, so the same command begins it" : restart_.hint);
  }

  Launch& launch_;
  Communicator& world_;
  FaultTolerance& ranks_;  ///< of world_
  int trains_;             ///< ranks that train
  const std::function<ExitCode(Launch&)>& work_;
  Restart restart_;
};

}  // namespace

ExitCode with_spares(Launch& launch, int spares, const std::function<ExitCode(Launch&)>& work) {
  if (spares == 0) return work(launch);
  if (!launch.world.survives_losses())
    refuse(
        "--spares: ranks that die can be replaced only if MPI goes on without them: start Open MPI 5 or later with "
        "mpirun --with-ft ulfm");
  if (spares + 2 > launch.world.size())
    refuse("--spares {}: at least two of {} must train: start more ranks, or keep fewer spare ranks", spares,
           counted(launch.world.size(), "rank"));
  return SpareRanks(launch, spares, work).run();
}

}  // namespace keelson::app
