#include "backends/kokkos/common/start.hpp"
#include "backends/registry.hpp"
#ifdef KEELSON_HAVE_CUDA
#include "backends/cuda/device.hpp"
#endif

namespace keelson::backends {

namespace {

/// The accelerator for this process, or why there is none.
struct Accelerator {
  bool usable = true;
  int number = -1;
  std::string refused;
};

Accelerator find_accelerator(int local_rank) {
#ifdef KEELSON_HAVE_CUDA
  const auto gpu = cuda::choose_gpu(local_rank);
  return {gpu.device >= 0, gpu.device, gpu.refused};
#else
  return (void)local_rank, Accelerator();
#endif
}

}  // namespace

Runtime::Runtime(int threads, int local_rank) {
  if (threads < 0) refuse("{} threads; give at least 1, or 0 for all that this process may use", threads);
  KEELSON_EXPECT(local_rank >= 0);
  if (kokkos::started()) return;
  if (kokkos::finished())
    fail("Kokkos was finalized before and cannot be started again; keep one Runtime for the whole program");
  const auto accelerator = find_accelerator(local_rank);
  if (!accelerator.usable) return;  // make_context says why
  kokkos::start(threads, accelerator.number);
  owns_ = true;
}

Runtime::~Runtime() {
  if (owns_ && kokkos::started()) kokkos::finish();
}

bool device_available(std::string* why) {
  if (kokkos::started()) return true;
  const auto accelerator = find_accelerator(0);
  if (why) *why = accelerator.refused;
  return accelerator.usable;
}

}  // namespace keelson::backends
