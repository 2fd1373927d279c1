#include "engine/train/rank_recovery.hpp"

#include <fmt/ranges.h>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/train/run_clock.hpp"

namespace keelson {
namespace {

std::string name(const std::vector<Recovery::Lost>& lost) {
  std::vector<std::string> names;
  for (const auto& [rank, host] : lost) names.push_back(fmt::format("{} ({})", rank, host));
  return fmt::format("{} {}", names.size() == 1 ? "rank" : "ranks", fmt::join(names, ", "));
}

/// "rank 2 (node7) was lost in a step after step 40"
std::string describe(const Recovery& r) {
  return fmt::format("{} {} lost in {} after step {}", name(r.lost), r.lost.size() == 1 ? "was" : "were", r.during,
                     r.step);
}

/// " of 2 ranks", behind replicas.
std::string of_ranks(int space) { return space == 1 ? "" : " of " + counted(space, "rank"); }

/// Whether `work` has ended without the loss of a rank.
bool succeeds(const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const RanksLost&) {
    return false;
  }
}

}  // namespace

std::string Recovery::to_string() const {
  const int units = ranks / space;
  auto go_on = fmt::format("{} {} on", counted(units, space == 1 ? "rank" : "replica") + of_ranks(space),
                           units == 1 ? "goes" : "go");
  if (waiting > 0) go_on += fmt::format(", and {} {}", counted(waiting, "rank"), waiting == 1 ? "waits" : "wait");
  if (restarted_from)
    return fmt::format(
        "{}; spare ranks take their place, and {} from step {}. Seconds: {:.3f} interrupted, {:.3f} to agree and "
        "regroup, {:.3f} to begin anew",
        describe(*this), go_on, *restarted_from, interrupted, shrink, rebuild);
  return fmt::format(
      "{}; {}. Seconds: {:.3f} interrupted, {:.3f} to agree and regroup, {:.3f} to rebuild, {:.3f} to do it again",
      describe(*this), go_on, interrupted, shrink, rebuild, redo);
}

RankRecovery::RankRecovery(const TrainingRanks& ranks, int max_failures, bool restart, RunCheckpoints& checkpoints)
    : ranks_(ranks),
      max_failures_(max_failures >= 0 ? max_failures : ranks.size() / 2),
      restart_(restart),
      checkpoints_(checkpoints) {}

/// Ranks that wait agree without a limit of time: the others may be at work for long.
bool RankRecovery::is_done(const Work& work) const {
  FaultTolerance& ranks = *ranks_.all()->fault_tolerance();
  const bool good = succeeds(work.run);
  if (!(good && ranks_.waits() ? ranks.wait_as_spare() : ranks.agree(good))) return false;
  return ranks_.waiting() == 0 || !work.share || ranks.agree(succeeds(work.share));
}

std::optional<Recovery> RankRecovery::retry_until_agreed(const Work& work, RunState& state, const Group& group) {
  std::optional<Recovery> recovery;
  Stopwatch watch;
  while (!is_done(work)) {
    if (!recovery)
      recovery = {
          .step = state.step, .during = work.name, .space = ranks_.per_replica(), .interrupted = watch.seconds()};
    if (restart_) {
      loss_ = recovery;
      throw RanksLost(fmt::format("ranks were lost in {} after step {}", work.name, state.step));
    }
    recover(*recovery, state, group);
    watch.restart();
  }
  if (recovery) recovery->redo = watch.seconds();
  return recovery;
}

void RankRecovery::recover(Recovery& recovery, RunState& state, const Group& group) {
  constexpr int most = 10;  // more ranks may be lost meanwhile
  for (int attempt = 0; attempt < most; ++attempt) {
    Stopwatch watch;
    group.release();
    Communicator& all = *ranks_.all();
    const bool was_rank0 = all.rank() == 0;
    const LostRanks lost = all.fault_tolerance()->shrink();
    if (!was_rank0 && all.rank() == 0) checkpoints_.take_over();
    leave_out(lost, recovery, state);
    recovery.shrink += watch.lap();
    const bool good = succeeds(group.rebuild);
    recovery.rebuild += watch.lap();
    if (all.fault_tolerance()->agree(good)) return;
  }
  throw RanksLost(fmt::format("the communication of {} on {} broke {} times in a row", counted(ranks_.size(), "rank"),
                              ranks_.all()->host(), most));
}

void RankRecovery::leave_out(const LostRanks& lost, Recovery& recovery, RunState& state) {
  for (std::size_t i = 0; i < lost.ranks.size(); ++i) {
    recovery.lost.push_back({lost.ranks[i], lost.hosts[i]});
    lost_.push_back(recovery.lost.back());
  }
  if (static_cast<int>(lost_.size()) > max_failures_)
    throw RanksLost(fmt::format("{}, which makes {} of {} (the most that a run goes on without: {}). {}",
                                describe(recovery), lost_.size(), static_cast<int>(lost_.size()) + ranks_.size(),
                                max_failures_, checkpoints_.describe_last()));
  if (ranks_.replicas() == 0)
    throw RanksLost(fmt::format("{}; {} {} left, but a replica has {} (--spatial). {}", describe(recovery),
                                counted(ranks_.size(), "rank"), ranks_.size() == 1 ? "is" : "are", ranks_.per_replica(),
                                checkpoints_.describe_last()));
  recovery.ranks = ranks_.count();
  recovery.waiting = ranks_.waiting();
  go_on_with(state, ranks_.count());
}

void RankRecovery::compare_parameters(const Parameters& parameters, std::size_t moments) const {
  if (ranks_.size() == 1) return;
  Communicator& ranks = *ranks_.all();
  auto hash = fnv1a(nullptr, 0);
  const auto add = [&](const std::vector<float>& v) { hash = fnv1a(v.data(), v.size() * sizeof(float), hash); };
  for (const auto& p : parameters.all()) {
    add(parameters.get(p));
    for (std::size_t m = 0; p.kind == ParameterKind::trained && m < moments; ++m)
      add(parameters.get(p, static_cast<int>(m)));
  }
  const auto all = ranks.allgather(fmt::format("{:016x}", hash));
  const auto names = ranks.allgather(ranks.name());
  for (std::size_t r = 1; r < all.size(); ++r)
    if (all[r] != all[0])
      fail(
          "after the loss of {} the parameters of rank {} differ from those of rank {} ({}, {}): do not use this "
          "run's last checkpoint; go on from an earlier one",
          name(lost_), names[r], names[0], all[r], all[0]);
}

}  // namespace keelson
