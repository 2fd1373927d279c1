#pragma once

#include <memory>

#include "backends/cuda/tuner.hpp"
#include "engine/ops/context.hpp"

namespace keelson::cuda {

class Cudnn;  ///< cuDNN's handle, in the files that know cuDNN

/// What is known of the GPU in use.
struct Gpu {
  int device = 0;        ///< CUDA's number of it in this process
  std::string name;      ///< "NVIDIA H200"
  int architecture = 0;  ///< 10 * major + minor of the compute capability, e.g. 90
  int multiprocessors = 0;
  std::size_t bytes = 0;  ///< of memory
  std::string bus;        ///< "0000:1b:00.0"
};
Gpu gpu_in_use();

/// What the primitives of one context share; each holds a share of it.
struct Session {
  explicit Session(Device& device);

  Device& device;
  Gpu gpu;
  cudaStream_t stream;  ///< Kokkos' default one, on which everything runs
  LtHandle lt;
  Tuner tuner;
  std::shared_ptr<Cudnn> cudnn;  ///< made by the first primitive that needs it
};
using SessionPtr = std::shared_ptr<Session>;

/// The most scratch memory that a library may ask for, bytes: what pays, but not more than a part of the card or of
/// what --memory-limit leaves.
std::size_t workspace_limit(const Session& session);

/// Memory for trying candidates on: not zero, since zeros draw less power and so run faster than numbers do. Empty
/// where the GPU has not so much left: then the first candidate must do.
GpuMemory trial_memory(std::size_t bytes);

/// The stream of Kokkos' default instance. (The one file of this backend that needs Kokkos for it: stream.cpp.)
cudaStream_t compute_stream();

}  // namespace keelson::cuda
