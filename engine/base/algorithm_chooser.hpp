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
/// What was chosen is kept in a file per model of processor and never chosen again: a plan made from the file is the
/// same plan. Processes that share the file measure one after the other, and whoever comes second takes what the first
/// has found. Ranks that do not share it are given the first rank's choices (text(), adopt()) by those who compile
/// plans.
///
/// The environment: KEELSON_CACHE is the folder of the file (default ${XDG_CACHE_HOME:-~/.cache}/keelson);
/// KEELSON_TUNE=off takes the rule of thumb, measures nothing, and neither reads nor writes the file.
/// KEELSON_VERBOSE=1 tells each measurement on stderr.
class AlgorithmChooser {
 public:
  /// `name` of the file, which tells the processor: "AMD EPYC". `clock` gives seconds; empty: of the system.
  explicit AlgorithmChooser(const std::string& name, std::function<double()> clock = {});

  /// Whether algorithms are measured: KEELSON_TUNE is not off, and no RulesOfThumb is alive.
  bool measures() const { return !off_ && rules_ == 0; }

  /// The number of the fastest of `candidates`, names that say fully what to run; the first one is the rule of thumb.
  /// `key` says what is computed: op, verb, dtypes, shapes, layouts, threads. run(i) does the work once and returns
  /// when it has ended; it is not called where the answer is known. What it throws passes through, and nothing is kept.
  std::size_t choose(const std::string& key, const std::vector<std::string>& candidates,
                     const std::function<void(std::size_t)>& run);

  /// All choices that this process has made or read, for adopt() on another rank.
  std::string text() const;
  /// Takes these choices before those of the file.
  void adopt(const std::string& text);

  /// Seconds that were spent on measuring so far.
  double seconds() const { return seconds_; }
  /// Where choices are kept; empty: in memory only.
  const std::filesystem::path& file() const { return cache_.file(); }

  /// While one is alive the rules of thumb are taken, as with KEELSON_TUNE=off: for results that must not depend on
  /// what was measured.
  class RulesOfThumb {
   public:
    /// Null: nothing to do.
    explicit RulesOfThumb(AlgorithmChooser* chooser) : chooser_(chooser) {
      if (chooser_) ++chooser_->rules_;
    }
    ~RulesOfThumb() {
      if (chooser_) --chooser_->rules_;
    }
    RulesOfThumb(const RulesOfThumb&) = delete;

   private:
    AlgorithmChooser* chooser_;
  };

 private:
  std::size_t fastest(const std::string& key, const std::vector<std::string>& candidates,
                      const std::function<void(std::size_t)>& run);

  double seconds_taken(const std::function<void()>& work) const;

  mutable std::mutex mutex_;
  std::function<double()> clock_;
  ChoiceCache cache_;
  std::map<std::string, std::string> made_, adopted_;
  bool off_;
  int rules_ = 0;
  double seconds_ = 0;
};

/// The model of this machine's processor as the system names it; "unknown processor" where it names none.
std::string processor_model();

}  // namespace keelson
