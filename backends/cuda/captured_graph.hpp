#pragma once

#include <functional>
#include <memory>

#include "backends/cuda/handles.hpp"
#include "engine/ops/device.hpp"

namespace keelson::cuda {

/// Work recorded as a CUDA graph.
class CudaGraph : public CapturedGraph {
 public:
  CudaGraph(GraphExec graph, std::size_t kernels) : graph_(std::move(graph)), kernels_(kernels) {}
  void launch() override;  ///< on the current instance's stream
  std::size_t kernels() const { return kernels_; }

 private:
  GraphExec graph_;
  std::size_t kernels_;
};

/// Calls `work`, which queues work on the current instance's stream, and on streams that wait for this stream first and
/// for which this stream waits at the end. Records this work as a graph instead of running it. If `work` throws or
/// queues work that cannot be recorded (a copy from pageable memory, an allocation, waiting), this function throws with
/// the reason, and the stream is as before.
std::unique_ptr<CudaGraph> record(const std::function<void()>& work);

}  // namespace keelson::cuda
