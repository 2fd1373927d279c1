#include "backends/cuda/capturing_device.hpp"

#include "backends/cuda/captured_graph.hpp"
#include "backends/cuda/instance.hpp"

namespace keelson::cuda {

namespace {

class CapturingGpu : public CapturingDevice {
 public:
  CapturedWork capture(const std::function<void()>& work) override {
    const std::shared_ptr<CudaGraph> graph = cuda::record(work);
    return {[graph] { graph->launch(); }, graph->kernels()};
  }

  double time(const std::function<void()>& work) override {
    check(cudaEventRecord(begin_.get(), current_stream()), "cudaEventRecord");
    work();
    check(cudaEventRecord(end_.get(), current_stream()), "cudaEventRecord");
    check(cudaEventSynchronize(end_.get()), "trying an algorithm");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  Event begin_ = make_timer(), end_ = make_timer();
};

}  // namespace

std::unique_ptr<CapturingDevice> make_capturing_device() { return std::make_unique<CapturingGpu>(); }

}  // namespace keelson::cuda
