#include "backends/cuda/instance.hpp"

#include "backends/cuda/gpu.hpp"
#include "backends/kokkos/common/instance.hpp"

namespace keelson::cuda {

namespace {

/// Made before Kokkos' instance, and destroyed after this instance has waited for all work.
struct Resources {
  Stream stream = make_stream();
  Staging staging{stream.get()};
};

struct StreamEvent : keelson::Event {
  explicit StreamEvent(cudaStream_t stream) { check(cudaEventRecord(event.get(), stream), "cudaEventRecord"); }
  const cuda::Event event = make_event();
};

class CudaInstance : private Resources, public kokkos::Instance {
 public:
  CudaInstance() : kokkos::Instance(kokkos::Space(stream.get())) {}

  std::shared_ptr<keelson::Event> record() override { return std::make_shared<StreamEvent>(stream.get()); }
  void wait_for(const keelson::Event& before) override {
    check(cudaStreamWaitEvent(stream.get(), static_cast<const StreamEvent&>(before).event.get(), 0),
          "cudaStreamWaitEvent");
  }
  /// Peeks: a fault that breaks the context stays, and check() clears all others.
  void check_launch(const char* label) const override {
    check(cudaPeekAtLastError(), "the launch of the kernel {}", label);
  }
  cudaStream_t handle() const { return stream.get(); }
  Staging& copies() { return staging; }

 private:
  /// A new thread uses GPU 0 until the thread selects another.
  Previous enter() override {
    check(cudaSetDevice(device_), "cudaSetDevice({})", device_);
    return kokkos::Instance::enter();
  }

  const int device_ = compute_device();
};

CudaInstance& current() { return static_cast<CudaInstance&>(kokkos::current_instance()); }

}  // namespace

void ensure_main_instance() {
  kokkos::ensure_main_instance([]() -> std::shared_ptr<kokkos::Instance> { return std::make_shared<CudaInstance>(); });
}

std::shared_ptr<ExecutionInstance> make_instance() { return std::make_shared<CudaInstance>(); }
ExecutionInstance& current_instance() { return kokkos::current_instance(); }
cudaStream_t current_stream() { return current().handle(); }
Staging& current_staging() { return current().copies(); }

}  // namespace keelson::cuda
