#include <chrono>
#include <utility>

#include <fmt/ranges.h>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/base/ranks.hpp"
#include "engine/train/trainer.hpp"

/// How the trainer goes on when ranks are lost. Between two agreements the ranks do one thing together that can be done
/// again: it changes neither parameters nor state. So at a loss all ranks that are left stand in the same one, or wait
/// for the agreement at its end.
namespace keelson {
namespace {

std::string name(const std::vector<Recovery::Lost>& lost) {
  std::vector<std::string> names;
  for (const auto& [rank, host] : lost) names.push_back(fmt::format("{} ({})", rank, host));
  return fmt::format("{} {}", names.size() == 1 ? "rank" : "ranks", fmt::join(names, ", "));
}

}  // namespace

std::string Recovery::to_string() const {
  if (restarted_from)
    return fmt::format(
        "{} {} lost in {} after step {}; spare ranks take their place, and {} on from step {}. Seconds: {:.3f} "
        "interrupted, {:.3f} to agree and regroup, {:.3f} to begin anew",
        name(lost), lost.size() == 1 ? "was" : "were", during, step,
        ranks == 1 ? "1 rank goes" : fmt::format("{} ranks go", ranks), *restarted_from, interrupted, shrink, rebuild);
  return fmt::format(
      "{} {} lost in {} after step {}; {} on. Seconds: {:.3f} interrupted, {:.3f} to agree and regroup, {:.3f} to "
      "rebuild, {:.3f} to do it again",
      name(lost), lost.size() == 1 ? "was" : "were", during, step,
      ranks == 1 ? "1 rank goes" : fmt::format("{} ranks go", ranks), interrupted, shrink, rebuild, redo);
}

bool Trainer::survives() const {
  return communicator_ && communicator_->survives_losses() && (options_.restart_on_loss || executor_->states().empty());
}

std::vector<TrainObserver*> Trainer::lead() {
  if (!is_root() || !first_rank_) return {};
  auto made = std::exchange(first_rank_, {})();
  observers_.insert(observers_.end(), made.begin(), made.end());
  return made;
}

void Trainer::together(const std::string& what, const std::function<void()>& work) {
  if (!survives()) {
    work();
    return tell([](auto& o) { o.on_agreement(); });
  }
  std::optional<Recovery> recovery;
  auto start = Clock::now();
  for (;;) {
    bool good = true;
    try {
      work();
    } catch (const RanksLost&) {
      good = false;
    }
    if (communicator_->fault_tolerance()->agree(good)) break;
    if (!recovery) recovery = {.step = state_.step, .during = what, .interrupted = since(start)};
    if (options_.restart_on_loss) {
      loss_ = recovery;
      throw RanksLost(fmt::format("ranks were lost in {} after step {}", what, state_.step));
    }
    recover(*recovery);
    start = Clock::now();
  }
  tell([](auto& o) { o.on_agreement(); });
  if (!recovery) return;
  recovery->redo = since(start);
  tell([&](auto& o) { o.on_ranks_lost(state_, *recovery); });
}

void Trainer::recover(Recovery& recovery) {
  constexpr int most = 10;  // more ranks may be lost meanwhile
  for (int attempt = 0; attempt < most; ++attempt) {
    auto start = Clock::now();
    release_executor();
    const bool followed = !is_root();
    const LostRanks lost = communicator_->fault_tolerance()->shrink();
    if (followed && is_root() && copy_) writer_.start(copy_);  // rank 0 may not have come to its end
    leave_out(lost, recovery);
    recovery.shrink += since(start);
    start = Clock::now();
    bool good = true;
    try {
      rebuild();
    } catch (const RanksLost&) {
      good = false;
    }
    recovery.rebuild += since(start);
    if (communicator_->fault_tolerance()->agree(good)) return;
  }
  throw RanksLost(fmt::format("the communication of {} on {} broke {} times in a row",
                              counted(communicator_->size(), "rank"), communicator_->host(), most));
}

/// Its collectives belong to the group of before. What is under way on the device uses memory that goes.
void Trainer::release_executor() {
  if (!executor_) return;
  parameters_.context().device().fence();
  retire(0);
  const auto scale = executor_->loss_scale();
  kept_scale_ = {.scale = scale.scale, .good_steps = scale.good_steps, .skipped = scale.skipped};
  feed_.reset();
  executor_.reset();
}

void Trainer::leave_out(const LostRanks& lost, Recovery& recovery) {
  for (std::size_t i = 0; i < lost.ranks.size(); ++i) {
    recovery.lost.push_back({lost.ranks[i], lost.hosts[i]});
    lost_.push_back(recovery.lost.back());
  }
  const auto fraction = epoch_fraction();
  const auto samples = samples_in_epoch();
  if (state_.step_in_epoch > 0) {
    state_.part_step = state_.step_in_epoch;
    state_.part_sample = samples;
    state_.part_position = fraction;
  }
  recovery.ranks = communicator_->size();
  state_.world_size = communicator_->size();
  state_.global_batch = options_.batch * communicator_->size();
  if (static_cast<int>(lost_.size()) <= options_.max_failures) return;
  throw RanksLost(
      fmt::format("{} {} lost in {} after step {}, which makes {} of {} (the most that a run goes on without: {}). {}",
                  name(recovery.lost), recovery.lost.size() == 1 ? "was" : "were", recovery.during, state_.step,
                  lost_.size(), static_cast<int>(lost_.size()) + communicator_->size(), options_.max_failures,
                  last_saved_.empty() ? "No checkpoint was written"
                                      : fmt::format("The last checkpoint is {}", last_saved_.string())));
}

/// For the group that is left now.
void Trainer::rebuild() {
  vote_.regroup(communicator_);
  grid_.emplace(*communicator_);
  loader_.reset();  // before the next one, which wants as much memory
  loader_.emplace(training_, loader_options());
  loader_at_.reset();
  executor_ = make_executor(*graph_);
  executor_->set_loss_scale(kept_scale_);
  feed_.emplace(training_.fields(), loader_->coded(), *executor_, parameters_.context());
  run_steps_ = 0;  // the new plan's calls are timed, too
  if (evaluator_) evaluator_->regroup();
  for (TrainObserver* o : lead()) o->on_take_over(state_, last_epoch_ ? &*last_epoch_ : nullptr);
}

void Trainer::compare_parameters() {
  auto hash = fnv1a(nullptr, 0);
  const auto add = [&](const std::vector<float>& v) { hash = fnv1a(v.data(), v.size() * sizeof(float), hash); };
  for (const auto& p : parameters_.all()) {
    add(parameters_.get(p));
    for (std::size_t m = 0; p.kind == ParameterKind::trained && m < moments_.size(); ++m)
      add(parameters_.get(p, static_cast<int>(m)));
  }
  together("the comparison of the parameters", [&] {
    if (communicator_->size() == 1) return;
    const auto all = communicator_->allgather(fmt::format("{:016x}", hash));
    const auto names = communicator_->allgather(communicator_->name());
    for (std::size_t r = 1; r < all.size(); ++r)
      if (all[r] != all[0])
        fail(
            "after the loss of {} the parameters of rank {} differ from those of rank {} ({}, {}): do not use this "
            "run's last checkpoint; go on from an earlier one",
            name(lost_), names[r], names[0], all[r], all[0]);
  });
}

}  // namespace keelson
