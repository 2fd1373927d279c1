#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/handles.hpp"
#include "engine/base/detail/choice_cache.hpp"

namespace keelson::cuda {

/// Chooses among algorithms that compute the same thing, by trying them on this GPU while a plan is being made.
///
/// What was chosen is kept in a file per GPU model and library versions, and never chosen again: a plan made from the
/// file is the same plan. Processes that share the file (the ranks of a node; those of a job, where the folder is
/// shared) measure one after the other, and whoever comes second takes what the first has found, so that they agree.
/// Ranks that do not share it may choose differently; their results then differ by rounding within their own samples'
/// gradients, while parameters, which follow from the exchanged sums, stay the same on all. Hence a primitive's name()
/// does not tell the algorithm: Plan::hash would refuse such ranks. KEELSON_VERBOSE=1 tells it.
///
/// The environment: KEELSON_CACHE is the folder (default ${XDG_CACHE_HOME:-~/.cache}/keelson); KEELSON_TUNE=off takes
/// the first candidate of each list, which is the library's own guess, and neither reads nor writes the file: for
/// results that must repeat on another machine of the same kind.
class Tuner {
 public:
  /// `libraries`: their versions, part of the file's name, e.g. "cublasLt-13.1.0-cudnn-9.19.0".
  Tuner(const std::string& gpu, const std::string& libraries);

  /// The number of the best of `candidates`, names that say fully what to run, best guess first; at least one.
  /// `key` says what is computed: op, verb, dtypes, shapes, layouts, most bytes of scratch memory.
  /// `run(i)` queues candidate i on the current instance's stream, on memory that the caller has set aside and keeps
  /// until this returns, and returns false where it cannot (that candidate is then out). Its first call may set things
  /// up and be slow; later ones are recorded as a CUDA graph, so they do nothing but queue work; what cannot be
  /// recorded is out, too. No other work may be under way. Throws Error where no candidate runs. `run` is not called
  /// where the answer is known.
  std::size_t choose(const std::string& key, const std::vector<std::string>& candidates,
                     const std::function<bool(std::size_t)>& run);

 private:
  std::size_t fastest(const std::string& key, const std::vector<std::string>& candidates,
                      const std::function<bool(std::size_t)>& run);
  double time(const std::function<void()>& work);  ///< milliseconds on the GPU of what `work` queues

  std::mutex mutex_;
  Event begin_, end_;
  ChoiceCache cache_;
  bool off_ = false;
};

}  // namespace keelson::cuda
