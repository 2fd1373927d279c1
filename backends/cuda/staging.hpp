#pragma once

#include <array>

#include "backends/cuda/handles.hpp"

namespace keelson::cuda {

/// Copies to the GPU through a ring of page-locked slots. A copy may end later than the call, although the source may
/// change at once. A call waits only if all slots are in use, i.e. if the host is so many copies ahead of the GPU.
class Staging {
 public:
  explicit Staging(cudaStream_t stream);
  void copy(void* dst, const void* src, std::size_t bytes);

 private:
  static constexpr std::size_t slot_bytes = std::size_t{1} << 19;
  static constexpr std::size_t slots = 32;

  cudaStream_t stream_;
  PinnedMemory memory_;
  std::array<Event, slots> done_;  ///< the copy out of each slot; complete if there was none
  std::size_t next_ = 0;
};

}  // namespace keelson::cuda
