#include "backends/cuda/queue.hpp"

#include "backends/cuda/instance.hpp"

namespace keelson::cuda {

namespace {

class CudaQueue : public Queue {
 public:
  CudaQueue(Device& device, Stream stream)
      : device_(device), stream_(std::move(stream)), before_(make_event()), after_(make_event()) {}
  ~CudaQueue() override { (void)cudaStreamSynchronize(stream_.get()); }  // the caller may free the memory next

  // The event may be recorded again at once: a queued wait is for the event's earlier record.
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

  bool idle() override { return is_idle(stream_.get(), "work queued beside the execution instances"); }
  void wait() override {
    device_.wait_until([this] { return idle(); });
  }
  void* native() override { return stream_.get(); }

 private:
  static void order(cudaStream_t first, const Event& event, cudaStream_t second) {
    check(cudaEventRecord(event.get(), first), "cudaEventRecord");
    check(cudaStreamWaitEvent(second, event.get(), 0), "cudaStreamWaitEvent");
  }

  Device& device_;
  Stream stream_;
  Event before_, after_;
};

}  // namespace

std::unique_ptr<Queue> make_queue(Device& device, Stream stream) {
  return std::make_unique<CudaQueue>(device, std::move(stream));
}

}  // namespace keelson::cuda
