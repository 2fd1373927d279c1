#include "engine/tune/autotuner.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/base/error.hpp"
#include "engine/base/verbose.hpp"
#include "engine/tune/wall_clock_timer.hpp"

namespace keelson {

namespace {

/// No candidate runs. Thrown through the cache, which then keeps nothing.
struct NoneRuns {};

/// A candidate that takes so many times as long as the fastest one is hopeless, in trials that take so many seconds.
constexpr double hopeless_ratio = 1.4, long_trial = 0.03;

}  // namespace

Autotuner::Autotuner(const std::string& name, std::unique_ptr<TrialTimer> timer, TuningRanks ranks)
    : timer_(std::move(timer)), ranks_(std::move(ranks)), off_(tuning_is_off()) {
  if (ranks_.rank == 0) cache_ = ChoiceCache(choice_file(name));
}

std::optional<std::size_t> Autotuner::choose(const std::string& key, const std::string& conditions,
                                             const std::vector<std::string>& candidates, const Trials& trials) {
  if (candidates.empty()) return {};
  const std::scoped_lock lock(mutex_);
  if (rules_ > 0 || candidates.size() == 1) return first_that_runs(candidates.size(), trials);
  const std::string list = fmt::format(", of {}", fmt::join(candidates, " | ")), shared_key = key + list;
  const auto find = [&](const std::string& name) { return std::find(candidates.begin(), candidates.end(), name); };
  const auto usable = [&](const std::string& name) { return find(name) != candidates.end(); };
  std::string chosen = candidates[0];
  if (const auto given = adopted(shared_key, key); !given.empty() && usable(given)) {
    chosen = given;
  } else if (off_ && !ranks_.from_first) {
    return first_that_runs(candidates.size(), trials);
  } else {
    const std::string here = conditions.empty() ? key : fmt::format("{}, {}", key, conditions);
    try {
      chosen = kept_or_measured(here + list, candidates[0], usable,
                                [&] { return candidates[fastest(here, candidates, trials)]; });
    } catch (const OutOfMemory&) {
      // The rule of thumb, on all ranks.
    } catch (const NoneRuns&) {
      return {};
    }
  }
  KEELSON_EXPECT(usable(chosen));
  made_[shared_key] = made_[key] = chosen;
  return static_cast<std::size_t>(find(chosen) - candidates.begin());
}

std::shared_ptr<void> Autotuner::zeros(std::size_t bytes, const std::function<std::shared_ptr<void>()>& make,
                                       const std::function<void(void*)>& clear) {
  if (memory_ && memory_bytes_ >= bytes) {
    clear(memory_.get());
    return memory_;
  }
  memory_.reset();  // before the next block, so that there is room for one alone
  const auto memory = make();
  if (memory_keepers_ > 0) memory_ = memory, memory_bytes_ = bytes;
  return memory;
}

void Autotuner::count_keepers(int more) {
  const std::scoped_lock lock(mutex_);
  memory_keepers_ += more;
  if (memory_keepers_ == 0) memory_.reset();
}

std::optional<std::size_t> Autotuner::first_that_runs(std::size_t count, const Trials& trials) {
  for (std::size_t i = 0; i < count; ++i)
    if (timer_->can_run(i, trials.run)) return i;
  return {};
}

std::string Autotuner::choose_value(const std::string& key, const std::string& rule_of_thumb,
                                    const std::function<bool(const std::string&)>& usable,
                                    const std::function<std::string()>& measure) {
  const std::scoped_lock lock(mutex_);
  return kept_or_measured(key, rule_of_thumb, usable, measure);
}

std::string Autotuner::kept_or_measured(const std::string& key, const std::string& rule_of_thumb,
                                        const std::function<bool(const std::string&)>& usable,
                                        const std::function<std::string()>& measure) {
  const auto kept = [&](const std::function<std::string()>& otherwise) {
    return off_ ? rule_of_thumb : cache_.choose(key, usable, otherwise);
  };
  if (!ranks_.from_first) return kept(measure);
  if (ranks_.rank != 0) {
    const std::string choice = ranks_.from_first({});
    return choice.empty() ? measure() : choice;
  }
  bool measured = false;
  const std::string choice = kept([&] {
    measured = true;
    ranks_.from_first({});  // calls upon the others to measure
    return measure();
  });
  return measured ? choice : ranks_.from_first(choice);
}

std::size_t Autotuner::fastest(const std::string& what, const std::vector<std::string>& candidates,
                               const Trials& trials) {
  const double start = steady_seconds();
  std::vector<double> times;
  const auto time = [&](const std::vector<std::size_t>& numbers) {
    trials.prepare(numbers);
    times.assign(candidates.size(), TrialTimer::does_not_run);
    const auto seconds = timer_->time(numbers.size(), [&](std::size_t i) { return trials.run(numbers[i]); });
    for (std::size_t i = 0; i < numbers.size(); ++i) times[numbers[i]] = seconds[i];
    return *std::min_element(times.begin(), times.end());
  };
  std::vector<std::size_t> all(candidates.size()), hopeful;
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::copy_if(all.begin(), all.end(), std::back_inserter(hopeful),
               [&](std::size_t i) { return !hopeless_.contains({trials.kind, candidates[i]}); });
  double least = time(hopeful.empty() ? all : hopeful);
  if (hopeful.size() < all.size() && (least < long_trial || least == TrialTimer::does_not_run)) least = time(all);
  seconds_ += steady_seconds() - start;
  if (least == TrialTimer::does_not_run) throw NoneRuns();
  if (!trials.kind.empty() && least >= long_trial)
    for (const std::size_t i : all)
      if (times[i] != TrialTimer::does_not_run && times[i] > hopeless_ratio * least)
        hopeless_.insert({trials.kind, candidates[i]});
  const auto winner = static_cast<std::size_t>(std::find(times.begin(), times.end(), least) - times.begin());
  if (verbose() && ranks_.rank == 0) {
    std::string text;
    for (std::size_t i = 0; i < candidates.size(); ++i)
      if (times[i] != TrialTimer::does_not_run)
        text += fmt::format("{}{} {:.4f} ms", text.empty() ? "" : ", ", candidates[i], times[i] * 1e3);
    fmt::print(stderr, "keelson: {}: {} is the fastest: {}\n", what, candidates[winner], text);
  }
  return winner;
}

std::string Autotuner::adopted(const std::string& with_list, const std::string& key) const {
  for (const auto& k : {with_list, key})
    if (const auto found = adopted_.find(k); found != adopted_.end()) return found->second;
  return "";
}

std::string Autotuner::text() const {
  const std::scoped_lock lock(mutex_);
  return nlohmann::json(made_).dump();
}

void Autotuner::adopt(const std::string& text) {
  const auto all = nlohmann::json::parse(text);
  const std::scoped_lock lock(mutex_);
  for (const auto& [key, choice] : all.items()) adopted_[key] = choice.get<std::string>();
}

}  // namespace keelson
