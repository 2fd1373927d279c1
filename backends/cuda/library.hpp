#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "backends/cuda/gpu.hpp"
#include "backends/cuda/handles.hpp"
#include "engine/ops/context.hpp"
#include "engine/tune/autotuner.hpp"

namespace keelson::cuda {

class Cudnn;  ///< cuDNN's handle, in the files that know cuDNN

/// What the primitives of one context share; each holds a share of it.
struct Library {
  /// `libraries`: the versions of other libraries whose algorithms the autotuner times, e.g. "-cudnn-91900".
  explicit Library(Device& device, const std::string& libraries = "");

  Device& device;
  Gpu gpu;
  LtHandle lt;
  Autotuner autotuner;
  /// cuDNN's handle for the current instance's stream, made by the first primitive that needs it. A handle is for one
  /// host thread at a time, as an instance is.
  Cudnn& cudnn();

 private:
  std::mutex mutex_;
  std::map<cudaStream_t, std::shared_ptr<Cudnn>> cudnn_;
};
using LibraryPtr = std::shared_ptr<Library>;

/// The most scratch memory that a library may ask for, bytes. A property of the GPU's model only, so that ranks with
/// more or less memory left choose alike.
std::size_t workspace_limit(const Library& library);

/// Memory for trying candidates on: not zero, since zeros draw less power and so run faster than numbers do. Empty
/// where the GPU has not so much left: then the first candidate must do.
GpuMemory trial_memory(std::size_t bytes);

/// Thrown through Autotuner::choose() by a candidate's run for want of that memory. Not while the answer is known.
struct NoTrialMemory {};

}  // namespace keelson::cuda
