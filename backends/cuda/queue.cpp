#include "backends/cuda/queue.hpp"

#include "backends/cuda/instance.hpp"

namespace keelson::cuda {

namespace {

class CudaQueue : public Queue {
 public:
  CudaQueue() : stream_(make_stream()), before_(make_event()), after_(make_event()) {}
  ~CudaQueue() override { (void)cudaStreamSynchronize(stream_.get()); }  // the memory it works on may go next

  // An event may be recorded anew at once: waiting is for what it stood for when the wait was queued.
  void wait_for_device() override { order(current_stream(), before_, stream_.get()); }
  void device_waits() override { order(stream_.get(), after_, current_stream()); }

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
    check(status, "work queued beside the execution instances");
    return true;
  }
  void wait() override { check(cudaStreamSynchronize(stream_.get()), "work queued beside the execution instances"); }
  void* native() override { return stream_.get(); }

 private:
  static void order(cudaStream_t first, const Event& event, cudaStream_t second) {
    check(cudaEventRecord(event.get(), first), "cudaEventRecord");
    check(cudaStreamWaitEvent(second, event.get(), 0), "cudaStreamWaitEvent");
  }

  Stream stream_;
  Event before_, after_;
};

}  // namespace

std::unique_ptr<Queue> make_queue() { return std::make_unique<CudaQueue>(); }

}  // namespace keelson::cuda
