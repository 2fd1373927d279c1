#include "backends/cuda/handles.hpp"

#include <cstring>

namespace keelson::cuda {

Stream make_stream() {
  cudaStream_t s = nullptr;
  check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return Stream(s);
}

Stream make_urgent_stream() {
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  cudaStream_t s = nullptr;
  check(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, greatest), "cudaStreamCreateWithPriority {}", greatest);
  return Stream(s);
}

bool is_idle(cudaStream_t stream, const char* what) {
  const auto status = cudaStreamQuery(stream);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();  // this is no error, but the next check would report it as one
    return false;
  }
  check(status, "{}", what);
  return true;
}

Event make_event() {
  cudaEvent_t e = nullptr;
  check(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return Event(e);
}

Event make_timer() {
  cudaEvent_t e = nullptr;
  check(cudaEventCreateWithFlags(&e, cudaEventDefault), "cudaEventCreateWithFlags");
  return Event(e);
}

GpuMemory allocate_gpu(std::size_t bytes, const std::string& label) {
  void* p = nullptr;
  check(cudaMalloc(&p, bytes), "cudaMalloc of {:.1f} MiB for {}", static_cast<double>(bytes) / (1 << 20), label);
  return GpuMemory(p);
}

PinnedMemory allocate_pinned(std::size_t bytes, const std::string& label) {
  void* p = nullptr;
  check(cudaHostAlloc(&p, bytes, cudaHostAllocPortable), "cudaHostAlloc of {:.1f} MiB for {}",
        static_cast<double>(bytes) / (1 << 20), label);
  std::memset(p, 0, bytes);
  return PinnedMemory(p);
}

LtHandle make_lt_handle() {
  cublasLtHandle_t h = nullptr;
  check(cublasLtCreate(&h), "cublasLtCreate");
  return LtHandle(h);
}

LtMatmul make_lt_matmul(cublasComputeType_t compute, cudaDataType_t scale) {
  cublasLtMatmulDesc_t m = nullptr;
  check(cublasLtMatmulDescCreate(&m, compute, scale), "cublasLtMatmulDescCreate");
  return LtMatmul(m);
}

LtLayout make_lt_layout(cudaDataType_t type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading) {
  cublasLtMatrixLayout_t l = nullptr;
  check(cublasLtMatrixLayoutCreate(&l, type, rows, columns, leading),
        "cublasLtMatrixLayoutCreate of {} x {}, leading dimension {}", rows, columns, leading);
  return LtLayout(l);
}

LtPreference make_lt_preference() {
  cublasLtMatmulPreference_t p = nullptr;
  check(cublasLtMatmulPreferenceCreate(&p), "cublasLtMatmulPreferenceCreate");
  return LtPreference(p);
}

}  // namespace keelson::cuda
