#include "backends/cuda/trial_device.hpp"

#include "backends/cuda/captured_graph.hpp"
#include "backends/cuda/instance.hpp"

namespace keelson::cuda {

namespace {

class GpuTrials : public backends::TrialDevice {
 public:
  backends::Recording record(const std::function<void()>& work) override {
    auto graph = cuda::record(work);
    const auto kernels = graph->kernels();
    return {std::move(graph), kernels};
  }

  double time(const std::function<void()>& work) override {
    check(cudaEventRecord(begin_.get(), current_stream()), "cudaEventRecord");
    work();
    check(cudaEventRecord(end_.get(), current_stream()), "cudaEventRecord");
    check(cudaEventSynchronize(end_.get()), "trying an algorithm");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds);
  }

 private:
  Event begin_ = make_timer(), end_ = make_timer();
};

}  // namespace

std::unique_ptr<backends::TrialDevice> make_trial_device() { return std::make_unique<GpuTrials>(); }

}  // namespace keelson::cuda
