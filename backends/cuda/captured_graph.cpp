#include "backends/cuda/captured_graph.hpp"

#include <algorithm>
#include <vector>

#include "backends/cuda/instance.hpp"

namespace keelson::cuda {

namespace {

/// Ends the recording that is under way; its graph, as far as there is one. Also a recording that was made invalid must
/// be ended, else the stream takes no more work.
Graph end(cudaStream_t stream, cudaError_t& status) {
  cudaGraph_t graph = nullptr;
  status = cudaStreamEndCapture(stream, &graph);
  return Graph(graph);
}

std::size_t count_kernels(cudaGraph_t graph) {
  std::size_t count = 0;
  check(cudaGraphGetNodes(graph, nullptr, &count), "cudaGraphGetNodes");
  std::vector<cudaGraphNode_t> nodes(count);
  if (count > 0) check(cudaGraphGetNodes(graph, nodes.data(), &count), "cudaGraphGetNodes");
  return static_cast<std::size_t>(std::count_if(nodes.begin(), nodes.end(), [](cudaGraphNode_t node) {
    cudaGraphNodeType type{};
    check(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
    return type == cudaGraphNodeTypeKernel;
  }));
}

}  // namespace

void CudaGraph::launch() { check(cudaGraphLaunch(graph_.get(), current_stream()), "cudaGraphLaunch of recorded work"); }

std::unique_ptr<CudaGraph> record(const std::function<void()>& work) {
  const auto stream = current_stream();
  // Thread-local: other threads may go on allocating pinned memory and the like, which does not concern this stream.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaError_t status;
  try {
    work();
  } catch (...) {
    end(stream, status);
    cudaGetLastError();  // of the recording, and of what it refused: neither must be found again by the next call
    throw;
  }
  const Graph graph = end(stream, status);
  check(status, "cudaStreamEndCapture of work that was to be recorded as a CUDA graph");
  const auto kernels = count_kernels(graph.get());
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph.get(), 0), "cudaGraphInstantiate");
  GraphExec made(exec);
  check(cudaGraphUpload(exec, stream), "cudaGraphUpload");  // else the first replay does it
  return std::make_unique<CudaGraph>(std::move(made), kernels);
}

}  // namespace keelson::cuda
