#include "backends/cuda/captured_graph.hpp"

#include <algorithm>
#include <vector>

#include "backends/cuda/instance.hpp"

namespace keelson::cuda {

namespace {

/// Ends the recording and returns its graph, or null. A recording that became invalid must be ended, too, else the
/// stream accepts no more work.
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
  // Thread-local: other threads may allocate pinned memory and the like meanwhile.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaError_t status;
  try {
    work();
  } catch (...) {
    end(stream, status);
    // clear the errors of the recording and of the refused call, so that the next call does not report them
    cudaGetLastError();
    throw;
  }
  const Graph graph = end(stream, status);
  check(status, "cudaStreamEndCapture of work that was to be recorded as a CUDA graph");
  const auto kernels = count_kernels(graph.get());
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph.get(), 0), "cudaGraphInstantiate");
  GraphExec made(exec);
  check(cudaGraphUpload(exec, stream), "cudaGraphUpload");  // otherwise the first launch uploads
  return std::make_unique<CudaGraph>(std::move(made), kernels);
}

}  // namespace keelson::cuda
