#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/detail/choice_cache.hpp"

namespace keelson {

/// Chooses among algorithms that compute the same thing, by timing them on this machine's processor while a plan is
/// being made.
///
/// What was chosen is kept in a file per model of processor and build of the algorithms, and never chosen again: a plan
/// made from the file is the same plan. Processes that share the file measure one after the other, and whoever comes
/// second takes what the first has found. Ranks that do not share it are given the first rank's choices (text(),
/// adopt()) by those who compile plans.
///
/// Several host threads may make plans with it: what must be measured is measured by one after the other.
///
/// The environment: KEELSON_CACHE is the folder of the file (default ${XDG_CACHE_HOME:-~/.cache}/keelson);
/// KEELSON_TUNE=off takes the rule of thumb, measures nothing, and neither reads nor writes the file;
/// what was adopted counts all the same.
/// KEELSON_VERBOSE=1 tells each measurement on stderr.
class AlgorithmChooser {
 public:
  /// `name` of the file, which tells all that speeds depend on: the processor, how the kernels were compiled, versions
  /// of libraries; "AMD EPYC-16-floats-onednn-3.7.1". `clock` gives seconds; empty: of the system.
  explicit AlgorithmChooser(const std::string& name, std::function<double()> clock = {});

  /// Whether algorithms are measured: KEELSON_TUNE is not off, and no RulesOfThumb is alive.
  bool measures() const { return !off_ && rules_ == 0; }

  /// What is to be measured, if it must be.
  struct Trials {
    std::function<void(std::size_t)> run;   ///< does the work of a candidate once and returns when it has ended
    std::function<void()> prepare = [] {};  ///< called once before the first run, and not timed: takes memory, fills it
  };

  /// The number of the fastest of `candidates`, names that say fully what to run; the first one is the rule of thumb.
  /// `key` says what is computed: op, verb, dtypes, shapes, layouts. The file's choices are for `threads` threads; what
  /// was adopted is for any number of them. Nothing of `trials` is called where the answer is known. Where they throw
  /// OutOfMemory the rule of thumb is taken, for this process and those that adopt its choices, but not for the file.
  /// Other exceptions pass through, and nothing is kept.
  std::size_t choose(const std::string& key, int threads, const std::vector<std::string>& candidates,
                     const Trials& trials);

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
    explicit RulesOfThumb(AlgorithmChooser* chooser) : chooser_(chooser) {
      if (chooser_) ++rules_;
    }
    ~RulesOfThumb() {
      if (chooser_) --rules_;
    }
    RulesOfThumb(const RulesOfThumb&) = delete;

   private:
    AlgorithmChooser* chooser_;
  };

 private:
  inline static thread_local int rules_ = 0;  ///< that are alive in this host thread

  /// The adopted choice for the same list of candidates; else, for a rank whose list is another one, for the same key.
  /// Empty: none.
  std::string adopted(const std::string& with_list, const std::string& key) const;
  std::size_t fastest(const std::string& what, const std::vector<std::string>& candidates, const Trials& trials);

  double seconds_taken(const std::function<void()>& work) const;

  mutable std::mutex mutex_;
  std::function<double()> clock_;
  ChoiceCache cache_;
  std::map<std::string, std::string> made_, adopted_;
  bool off_;
  double seconds_ = 0;
};

}  // namespace keelson
