#include "backends/cuda/queue.hpp"

namespace keelson::cuda {

namespace {

class CudaQueue : public Queue {
 public:
  explicit CudaQueue(cudaStream_t compute)
      : compute_(compute), stream_(make_stream()), before_(make_event()), after_(make_event()) {}
  ~CudaQueue() override { (void)cudaStreamSynchronize(stream_.get()); }  // the memory it works on may go next

  // An event may be recorded anew at once: waiting is for what it stood for when the wait was queued.
  void wait_for_device() override { order(compute_, before_, stream_.get()); }
  void device_waits() override { order(stream_.get(), after_, compute_); }

  void copy_from_host(void* dst, const void* src, std::size_t bytes) override {
    check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyHostToDevice, stream_.get()),
          "cudaMemcpyAsync of {} bytes to the GPU", bytes);
  }
  void copy_to_host(void* dst, const void* src, std::size_t bytes) override {
    check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, stream_.get()),
          "cudaMemcpyAsync of {} bytes from the GPU", bytes);
  }

  bool idle() override {
    const auto status = cudaStreamQuery(stream_.get());
    if (status == cudaErrorNotReady) {
      cudaGetLastError();  // not an error, but the next call that looks would take it for one
      return false;
    }
    check(status, "work queued beside the main stream");
    return true;
  }
  void wait() override { check(cudaStreamSynchronize(stream_.get()), "work queued beside the main stream"); }
  void* native() override { return stream_.get(); }

 private:
  static void order(cudaStream_t first, const Event& event, cudaStream_t second) {
    check(cudaEventRecord(event.get(), first), "cudaEventRecord");
    check(cudaStreamWaitEvent(second, event.get(), 0), "cudaStreamWaitEvent");
  }

  cudaStream_t compute_;
  Stream stream_;
  Event before_, after_;
};

}  // namespace

std::unique_ptr<Queue> make_queue(cudaStream_t compute) { return std::make_unique<CudaQueue>(compute); }

}  // namespace keelson::cuda
