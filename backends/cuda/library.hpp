#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "backends/cuda/gpu.hpp"
#include "backends/cuda/handles.hpp"
#include "engine/ops/context.hpp"
#include "engine/tune/autotuner.hpp"

namespace keelson::cuda {

// Complete in the files that use cuDNN and cuSOLVER.
class Cudnn;         ///< cuDNN's handle
struct CudnnChoice;  ///< the algorithm of a verb of a convolution
class Cusolver;      ///< cuSOLVER's handle

/// The state that the primitives of one context share; each primitive holds a shared pointer to it.
struct Library {
  /// `libraries`: the versions of other libraries whose algorithms the autotuner times, e.g. "-cudnn-91900".
  explicit Library(Device& device, const std::string& libraries = "");

  Device& device;
  Gpu gpu;
  LtHandle lt;
  Autotuner autotuner;
  /// cuDNN's handle for the current instance's stream, made by the first primitive that needs it. Only one host thread
  /// at a time may use a handle.
  Cudnn& cudnn();
  /// cuSOLVER's, likewise.
  Cusolver& cusolver();
  /// The algorithm that was chosen for a convolution, a verb and a stream; null: none yet. For an equal convolution
  /// nothing is asked of cuDNN's heuristics, tried or compiled again.
  std::shared_ptr<const CudnnChoice> known_choice(const std::string& key) {
    const std::scoped_lock lock(mutex_);
    const auto found = choices_.find(key);
    return found == choices_.end() ? nullptr : found->second;
  }
  void keep_choice(const std::string& key, std::shared_ptr<const CudnnChoice> choice) {
    const std::scoped_lock lock(mutex_);
    choices_[key] = std::move(choice);
  }

 private:
  std::mutex mutex_;
  std::map<cudaStream_t, std::shared_ptr<Cudnn>> cudnn_;
  std::map<cudaStream_t, std::shared_ptr<Cusolver>> cusolver_;
  std::map<std::string, std::shared_ptr<const CudnnChoice>> choices_;  ///< they end before the handles
};
using LibraryPtr = std::shared_ptr<Library>;

/// The limit of the scratch memory of a library, in bytes. It depends only on the GPU's model, so that ranks with more
/// or less free memory make the same choice.
std::size_t workspace_limit(const Library& library);

/// Memory for running candidates. It is not zero, since computing with zeros draws less power and so is faster. Empty
/// if the GPU does not have so much free memory: then the first candidate is taken.
GpuMemory trial_memory(std::size_t bytes);

/// Thrown by a candidate's run, through Autotuner::choose(), if this memory cannot be allocated. Not thrown if the
/// choice is already known.
struct NoTrialMemory {};

}  // namespace keelson::cuda
