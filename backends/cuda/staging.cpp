#include "backends/cuda/staging.hpp"

#include <algorithm>
#include <cstring>

namespace keelson::cuda {

Staging::Staging(cudaStream_t stream)
    : stream_(stream), memory_(allocate_pinned(slots * slot_bytes, "copies from the host")) {
  for (auto& e : done_) e = make_event();
}

void Staging::copy(void* dst, const void* src, std::size_t bytes) {
  auto* to = static_cast<char*>(dst);
  const auto* from = static_cast<const char*>(src);
  while (bytes > 0) {
    const auto piece = std::min(bytes, slot_bytes);
    char* slot = static_cast<char*>(memory_.get()) + next_ * slot_bytes;
    check(cudaEventSynchronize(done_[next_].get()), "waiting for an earlier copy from the host");
    std::memcpy(slot, from, piece);
    check(cudaMemcpyAsync(to, slot, piece, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync of {} bytes to the GPU",
          piece);
    check(cudaEventRecord(done_[next_].get(), stream_), "cudaEventRecord");
    next_ = (next_ + 1) % slots;
    to += piece, from += piece, bytes -= piece;
  }
}

}  // namespace keelson::cuda
