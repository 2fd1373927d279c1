#include "engine/base/algorithm_chooser.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/base/error.hpp"
#include "engine/base/verbose.hpp"

namespace keelson {

namespace {

/// Of the rules by which choices are made, part of the file's name. Raise the number when choices made by earlier rules
/// must not be used: when a kernel has become faster.
constexpr int chooser_version = 1;

constexpr int timing_rounds = 4;
/// What takes so many times as long as another one, after one timed run and after two, is not looked at further.
constexpr double far_behind[timing_rounds - 2] = {1.5, 1.2};
/// Work that takes longer, in seconds, is run once: noise is small beside it.
constexpr double long_work = 1;

double system_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

AlgorithmChooser::AlgorithmChooser(const std::string& name, std::function<double()> clock)
    : clock_(clock ? std::move(clock) : system_seconds),
      cache_(choice_file(fmt::format("{}-v{}", name, chooser_version))),
      off_(tuning_is_off()) {}

double AlgorithmChooser::seconds_taken(const std::function<void()>& work) const {
  const double start = clock_();
  work();
  return clock_() - start;
}

std::size_t AlgorithmChooser::choose(const std::string& key, int threads, const std::vector<std::string>& candidates,
                                     const Trials& trials) {
  if (rules_ > 0 || candidates.size() < 2) return 0;
  const std::scoped_lock lock(mutex_);
  const std::string list = fmt::format(", of {}", fmt::join(candidates, " | ")), shared_key = key + list;
  const auto place = [&](const std::string& name) { return std::find(candidates.begin(), candidates.end(), name); };
  const auto usable = [&](const std::string& name) { return place(name) != candidates.end(); };
  std::string chosen = candidates[0];
  if (const auto given = adopted(shared_key, key); !given.empty() && usable(given))
    chosen = given;
  else if (off_)
    return 0;
  else
    try {
      const std::string here = fmt::format("{}, {} threads", key, threads);
      chosen = cache_.choose(here + list, usable, [&] { return candidates[fastest(here, candidates, trials)]; });
    } catch (const OutOfMemory&) {
      // The rule of thumb, on all ranks.
    }
  made_[shared_key] = made_[key] = chosen;
  return static_cast<std::size_t>(place(chosen) - candidates.begin());
}

std::size_t AlgorithmChooser::fastest(const std::string& what, const std::vector<std::string>& candidates,
                                      const Trials& trials) {
  constexpr double unknown = std::numeric_limits<double>::max();
  std::vector<double> best(candidates.size(), unknown);
  double least = unknown;
  const auto is_decided = [&](std::size_t i, int round) {
    if (best[i] == unknown) return false;
    return best[i] > long_work || (round > 1 && best[i] > far_behind[round - 2] * least);
  };
  seconds_ += seconds_taken([&] {
    trials.prepare();
    for (int round = 0; round < timing_rounds; ++round)  // in turns, so that a clock that changes meets all of them
      for (std::size_t i = 0; i < candidates.size(); ++i) {
        if (is_decided(i, round)) continue;
        const double seconds = seconds_taken([&] { trials.run(i); });
        if (round == 0 && seconds < long_work) continue;  // it also set things up
        best[i] = std::min(best[i], seconds);
        least = std::min(least, best[i]);
      }
  });
  const auto winner = static_cast<std::size_t>(std::min_element(best.begin(), best.end()) - best.begin());
  if (verbose()) {
    std::string times;
    for (std::size_t i = 0; i < candidates.size(); ++i)
      times += fmt::format("{}{} {:.3f} ms", i ? ", " : "", candidates[i], best[i] * 1e3);
    fmt::print(stderr, "keelson: {}: {} is the fastest: {}\n", what, candidates[winner], times);
  }
  return winner;
}

std::string AlgorithmChooser::adopted(const std::string& with_list, const std::string& key) const {
  for (const auto& k : {with_list, key})
    if (const auto found = adopted_.find(k); found != adopted_.end()) return found->second;
  return "";
}

std::string AlgorithmChooser::text() const {
  const std::scoped_lock lock(mutex_);
  return nlohmann::json(made_).dump();
}

void AlgorithmChooser::adopt(const std::string& text) {
  const auto all = nlohmann::json::parse(text);
  const std::scoped_lock lock(mutex_);
  for (const auto& [key, choice] : all.items()) adopted_[key] = choice.get<std::string>();
}

}  // namespace keelson
