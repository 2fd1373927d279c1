// The three functions of NVIDIA's driver library that Kokkos calls, loaded when they are called. If they were linked,
// no program could start without a driver, not even to print its --help on a login node.
#include <cuda.h>
#include <dlfcn.h>

namespace {

template <class Function>
Function* driver_function(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
}

template <class... Arguments>
CUresult call(const char* name, Arguments... arguments) {
  const auto function = driver_function<CUresult(Arguments...)>(name);
  return function ? function(arguments...) : CUDA_ERROR_NOT_INITIALIZED;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuStreamGetCtx(CUstream stream, CUcontext* context) { return call("cuStreamGetCtx", stream, context); }

CUresult CUDAAPI cuCtxPushCurrent(CUcontext context) { return call("cuCtxPushCurrent_v2", context); }

CUresult CUDAAPI cuCtxGetDevice(CUdevice* device) { return call("cuCtxGetDevice", device); }
}
