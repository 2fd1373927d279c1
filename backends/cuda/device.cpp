#include "backends/cuda/device.hpp"

#include <algorithm>

#include "backends/common/budget.hpp"
#include "backends/cuda/captured_graph.hpp"
#include "backends/cuda/energy.hpp"
#include "backends/cuda/gpu.hpp"
#include "backends/cuda/instance.hpp"
#include "backends/cuda/queue.hpp"
#include "backends/kokkos/common/peaks.hpp"
#include "backends/kokkos/common/run_merged.hpp"
#include "engine/base/align.hpp"

namespace keelson::cuda {

namespace {

class CudaDevice : public Device {
 public:
  CudaDevice() : gpu_(gpu_in_use()) {
    use();
    ensure_main_instance();
  }

  std::string describe() const override {
    return fmt::format("{}, sm_{}, {:.0f} GiB", gpu_.name, gpu_.architecture,
                       static_cast<double>(gpu_.bytes) / (1 << 30));
  }
  std::string bus_id() const override { return gpu_.bus; }
  bool shares_host_memory() const override { return false; }
  bool is_asynchronous() const override { return true; }
  bool can_capture() const override { return true; }
  bool can_overlap() const override { return true; }
  bool has_small_caches() const override { return false; }

  std::shared_ptr<void> allocate(std::size_t bytes, const std::string& label) override {
    use();
    const auto size = align64(std::max<std::size_t>(bytes, 1));
    void* memory = nullptr;
    if (size <= budget_->left()) {
      const auto status = cudaMalloc(&memory, size);
      if (status != cudaErrorMemoryAllocation) check(status, "cudaMalloc of {} bytes for {}", size, label);
      if (status != cudaSuccess) cudaGetLastError();
    }
    if (!memory) budget_->out_of_memory(size, label, describe(), others());
    budget_->used += size;
    std::shared_ptr<void> owner(memory, [size, budget = budget_](void* p) {
      (void)cudaFree(p);  // waits for work that uses the memory
      budget->used -= size;
    });
    zero(memory, size);
    return owner;
  }

  std::shared_ptr<void> allocate_host(std::size_t bytes, const std::string& label) override {
    use();
    const auto owner = std::make_shared<PinnedMemory>(allocate_pinned(align64(std::max<std::size_t>(bytes, 1)), label));
    return {owner, owner->get()};
  }

  DeviceMemory memory() const override {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return {total, std::min(free, budget_->left()), budget_->used};
  }
  void limit_memory(std::size_t bytes) override { budget_->limit = bytes; }

  void copy_from_host(void* dst, const void* src, std::size_t bytes) override {
    current_staging().copy(dst, src, bytes);
  }
  void copy_to_host(void* dst, const void* src, std::size_t bytes) override {
    check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, current_stream()),
          "cudaMemcpyAsync of {} bytes from the GPU", bytes);
    fence();
  }
  void copy(void* dst, const void* src, std::size_t bytes) override {
    check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, current_stream()),
          "cudaMemcpyAsync of {} bytes within the GPU", bytes);
  }
  void zero(void* dst, std::size_t bytes) override {
    check(cudaMemsetAsync(dst, 0, bytes, current_stream()), "cudaMemsetAsync of {} bytes", bytes);
  }
  void fence() override {
    wait_until([stream = current_stream()] { return is_idle(stream, "work on the GPU"); });
  }

  ExecutionInstance& current_instance() override { return cuda::current_instance(); }
  std::shared_ptr<ExecutionInstance> make_instance(const InstanceOptions& options) override {
    if (options.threads != 0)
      refuse("an execution instance of {} threads: a GPU has no threads to choose; give 0", options.threads);
    use();
    return cuda::make_instance();
  }
  std::unique_ptr<Queue> make_queue() override {
    use();
    return cuda::make_queue(*this, make_stream());
  }
  std::unique_ptr<Queue> make_urgent_queue() override {
    use();
    return cuda::make_queue(*this, make_urgent_stream());
  }
  std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) override { return cuda::record(work); }

  bool merges_launches() const override { return true; }
  void run_together(std::size_t count, const std::function<void(std::size_t)>& call) override {
    kokkos::run_merged(count, call);
  }

  int vector_width() const override { return 1; }
  DType preferred_half() const override {
    return gpu_.architecture >= 80 ? DType::bf16 : gpu_.architecture >= 70 ? DType::f16 : DType::f32;
  }

  DevicePeaks measure_peaks() override {
    const auto fma = kokkos::measure_fma_rate();
    const std::size_t bytes = std::min<std::size_t>(std::size_t{1} << 30, memory().available / 4) / 64 * 64;
    const auto src = allocate(bytes, "peaks: source of the copy"), dst = allocate(bytes, "peaks: copy");
    return {fma, kokkos::measure_copy_rate(static_cast<float*>(dst.get()), static_cast<const float*>(src.get()),
                                           static_cast<std::int64_t>(bytes / sizeof(float)))};
  }
  DeviceEnergy energy() override { return energy_of(gpu_.bus); }

 private:
  /// A new thread uses GPU 0 until the thread selects another.
  void use() const { check(cudaSetDevice(gpu_.device), "cudaSetDevice({})", gpu_.device); }

  /// The part of the message about full memory that concerns other processes.
  std::string others() const {
    std::size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) return "";
    return fmt::format(" ({:.1f} MiB of it are free now; nvidia-smi shows who else is on it)",
                       static_cast<double>(free) / (1 << 20));
  }

  Gpu gpu_;
  std::shared_ptr<backends::Budget> budget_ = std::make_shared<backends::Budget>();
};

}  // namespace

std::unique_ptr<Device> make_device() { return std::make_unique<CudaDevice>(); }

}  // namespace keelson::cuda
