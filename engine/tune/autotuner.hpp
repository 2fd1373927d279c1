#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/tune/choice_cache.hpp"
#include "engine/tune/trial_timer.hpp"

namespace keelson {

/// Ranks that choose together.
struct TuningRanks {
  int rank = 0;  ///< of this process
  /// Returns the first rank's `text` on all ranks. Collective. Empty: this process chooses alone.
  std::function<std::string(const std::string& text)> from_first;
};

/// Chooses the fastest of several candidates that compute the same thing, by timing them on this machine.
///
/// The choices are kept in a file and never made again: a plan made from the file is the same plan. Processes that
/// share the file measure one after the other, and the second process takes what the first has found.
///
/// Ranks can agree in two ways. A rank whose Autotuner has `ranks` chooses together with them: the first rank looks
/// into its file, and if the file has no answer all ranks measure. A rank without can be given all choices of
/// another one (text(), adopt()).
///
/// Several host threads may use one Autotuner; they measure one after the other.
///
/// The environment: KEELSON_CACHE is the folder of the file (default ${XDG_CACHE_HOME:-~/.cache}/keelson).
/// KEELSON_TUNE=off takes the rule of thumb, measures nothing, and neither reads nor writes the file; what was adopted
/// counts all the same. KEELSON_VERBOSE=1 prints each measurement to stderr.
class Autotuner {
 public:
  /// `name` of the file, which tells all that speeds depend on: the device, how kernels were compiled, the versions of
  /// libraries and of the rules; "AMD EPYC-16-floats-onednn-3.7.1-v1".
  Autotuner(const std::string& name, std::unique_ptr<TrialTimer> timer, TuningRanks ranks = {});

  /// Whether candidates are measured: KEELSON_TUNE is not off, and no RulesOfThumb is alive.
  bool measures() const { return !off_ && rules_ == 0; }

  /// What is to be measured, if it must be.
  struct Trials {
    RunCandidate run;  ///< runs a candidate once
    /// Called before these candidates run for the first time, and not timed: allocates operands.
    std::function<void(const std::vector<std::size_t>& candidates)> prepare = [](const auto&) {};
    /// The kind of the problem; empty: of its own kind. A candidate that was far from the fastest one in long trials of
    /// the same kind does not run again in this process, if the trials are long.
    std::string kind{};
  };

  /// The number of the fastest of `candidates`, names that say fully what to run; the first one is the rule of thumb.
  /// Nothing if no candidate runs. `key` says what is computed (op, verb, dtypes, shapes, layouts), `conditions` on
  /// what else the speed depends: "2 threads". The file's choices are for these conditions, what was adopted is for
  /// any.
  ///
  /// Nothing of `trials` is called if the answer is known. If they throw OutOfMemory the rule of thumb is taken,
  /// for this process and those that adopt its choices, but not for the file. Other exceptions pass through, and
  /// nothing is kept. Collective over `ranks`.
  std::optional<std::size_t> choose(const std::string& key, const std::string& conditions,
                                    const std::vector<std::string>& candidates, const Trials& trials);

  /// Zeros for the operands of one choice's trials, called by Trials::prepare. `make` allocates them, `clear` sets
  /// memory to zero that served before: taking new pages of the system may cost more than the trials do.
  std::shared_ptr<void> zeros(std::size_t bytes, const std::function<std::shared_ptr<void>()>& make,
                              const std::function<void(void*)>& clear);

  /// While one is alive, zeros() keeps its memory from one choice to the next.
  class KeepsMemory {
   public:
    /// Null: nothing to do.
    explicit KeepsMemory(Autotuner* autotuner) : autotuner_(autotuner) {
      if (autotuner_) autotuner_->count_keepers(1);
    }
    ~KeepsMemory() {
      if (autotuner_) autotuner_->count_keepers(-1);
    }
    KeepsMemory(const KeepsMemory&) = delete;

   private:
    Autotuner* autotuner_;
  };

  /// A choice that is no minimum of times: the kept one for `key` if `usable` takes it, else what `measure` returns,
  /// which is kept; with KEELSON_TUNE=off `rule_of_thumb`. No value is empty. Collective over `ranks`; all of them
  /// measure together.
  std::string choose_value(const std::string& key, const std::string& rule_of_thumb,
                           const std::function<bool(const std::string&)>& usable,
                           const std::function<std::string()>& measure);

  /// The timer that choose() uses.
  TrialTimer& timer() { return *timer_; }

  /// All choices that this process has made or read, the latest for each key, for adopt() on another rank.
  std::string text() const;
  /// Takes these choices before those of the file, whatever KEELSON_TUNE says here.
  void adopt(const std::string& text);

  /// Seconds that were spent on measuring so far.
  double seconds() const {
    const std::scoped_lock lock(mutex_);
    return seconds_;
  }
  /// Where choices are kept; empty: in memory only.
  const std::filesystem::path& file() const { return cache_.file(); }

  /// While one is alive the rules of thumb are taken in its host thread, as with KEELSON_TUNE=off, and what was adopted
  /// does not count: for results that must not depend on what was measured.
  class RulesOfThumb {
   public:
    /// Null: nothing to do.
    explicit RulesOfThumb(Autotuner* autotuner) : autotuner_(autotuner) {
      if (autotuner_) ++rules_;
    }
    ~RulesOfThumb() {
      if (autotuner_) --rules_;
    }
    RulesOfThumb(const RulesOfThumb&) = delete;

   private:
    Autotuner* autotuner_;
  };

 private:
  inline static thread_local int rules_ = 0;  ///< that are alive in this host thread

  /// The adopted choice for the same list of candidates; else, for a rank whose list is another one, for the same key.
  /// Empty: none.
  std::string adopted(const std::string& with_list, const std::string& key) const;
  std::optional<std::size_t> first_that_runs(std::size_t count, const Trials& trials);
  std::size_t fastest(const std::string& what, const std::vector<std::string>& candidates, const Trials& trials);
  void count_keepers(int more);
  /// With `mutex_` held.
  std::string kept_or_measured(const std::string& key, const std::string& rule_of_thumb,
                               const std::function<bool(const std::string&)>& usable,
                               const std::function<std::string()>& measure);

  mutable std::mutex mutex_;
  std::unique_ptr<TrialTimer> timer_;
  TuningRanks ranks_;
  ChoiceCache cache_;  ///< of the first rank
  std::map<std::string, std::string> made_, adopted_;
  std::set<std::pair<std::string, std::string>> hopeless_;  ///< kinds of problems, and candidates far from the fastest
  std::shared_ptr<void> memory_;                            ///< that zeros() keeps
  std::size_t memory_bytes_ = 0;
  int memory_keepers_ = 0;
  bool off_;
  double seconds_ = 0;
};

}  // namespace keelson
