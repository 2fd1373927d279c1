#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/detail/choice_cache.hpp"
#include "engine/ops/device.hpp"

namespace keelson::backends {

/// Work that was recorded.
struct Recording {
  std::unique_ptr<CapturedGraph> graph;
  std::size_t kernels = 0;  ///< in it; copies and fills do not count
};

/// What a tuner needs of a device, so that tests can stand in for a GPU.
class TrialDevice {
 public:
  virtual ~TrialDevice() = default;
  /// Records what `work` queues instead of running it. Throws Error where something of it cannot be recorded, and what
  /// `work` throws; the device is then as before.
  virtual Recording record(const std::function<void()>& work) = 0;
  /// Runs what `work` queues. Returns when it has ended: the device's time for it, milliseconds. Throws Error where the
  /// device broke down.
  virtual double time(const std::function<void()>& work) = 0;
};

/// Chooses among algorithms that compute the same thing, by trying them on this device while a plan is being made.
///
/// What was chosen is kept in a file per model of device and library versions, and never chosen again: a plan made from
/// the file is the same plan. Processes that share the file (the ranks of a node; those of a job, where the folder is
/// shared) measure one after the other, and whoever comes second takes what the first has found, so that they agree.
/// Ranks that do not share it may choose differently; their results then differ by rounding within their own samples'
/// gradients, while parameters, which follow from the exchanged sums, stay the same on all. Hence a primitive's name()
/// does not tell the algorithm: Plan::hash would refuse such ranks. KEELSON_VERBOSE=1 tells it.
///
/// The environment: KEELSON_CACHE is the folder (default ${XDG_CACHE_HOME:-~/.cache}/keelson); KEELSON_TUNE=off takes
/// the first candidate that runs, measures nothing, and neither reads nor writes the file: for results that must repeat
/// on another machine of the same kind.
class Tuner {
 public:
  /// `name` of the file: the model of the device and the versions of the libraries, e.g.
  /// "NVIDIA H200-cublasLt-130100-cudnn-91900".
  Tuner(std::unique_ptr<TrialDevice> device, const std::string& name);

  /// The number of the best of `candidates`, names that say fully what to run, best guess first; nothing where none of
  /// them runs. `key` says what is computed: op, verb, dtypes, shapes, layouts, most bytes of scratch memory.
  ///
  /// `run(i)` queues candidate i on memory that the caller has set aside and keeps until this returns. Where it returns
  /// false or throws Error the candidate is out: at the first call, which may set things up and be slow, and at every
  /// later one. Later calls are recorded, so they do nothing but queue work. A candidate whose calls cannot be recorded
  /// is out, and so is one whose recording has less than one kernel per call: it refused in silence. No other work may
  /// be under way. `run` is not called where the answer is known. Other exceptions of `run` pass through.
  std::optional<std::size_t> choose(const std::string& key, const std::vector<std::string>& candidates,
                                    const std::function<bool(std::size_t)>& run);

  const std::filesystem::path& file() const { return cache_.file(); }

 private:
  std::optional<std::size_t> fastest(const std::string& key, const std::vector<std::string>& candidates,
                                     const std::function<bool(std::size_t)>& run);
  std::optional<Recording> try_to_record(std::size_t candidate, int runs, const std::function<bool(std::size_t)>& run);

  std::mutex mutex_;
  std::unique_ptr<TrialDevice> device_;
  ChoiceCache cache_;
  bool off_ = false;
};

}  // namespace keelson::backends
