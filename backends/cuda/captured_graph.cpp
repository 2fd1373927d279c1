#include "backends/cuda/captured_graph.hpp"

namespace keelson::cuda {

namespace {

/// Ends the recording that is under way; its graph, as far as there is one.
Graph end(cudaStream_t stream, cudaError_t& status) {
  cudaGraph_t graph = nullptr;
  status = cudaStreamEndCapture(stream, &graph);
  return Graph(graph);
}

}  // namespace

GraphExec record(cudaStream_t stream, const std::function<void()>& work) {
  // Thread-local: other threads may go on allocating pinned memory and the like, which does not concern this stream.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaError_t status;
  try {
    work();
  } catch (...) {
    end(stream, status);
    cudaGetLastError();
    throw;
  }
  const Graph graph = end(stream, status);
  check(status, "cudaStreamEndCapture of work that was to be recorded as a CUDA graph");
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph.get(), 0), "cudaGraphInstantiate");
  GraphExec made(exec);
  check(cudaGraphUpload(exec, stream), "cudaGraphUpload");  // else the first replay does it
  return made;
}

}  // namespace keelson::cuda
