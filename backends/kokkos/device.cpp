#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <type_traits>

#include "backends/common/budget.hpp"
#include "backends/kokkos/common/kernel.hpp"
#include "backends/kokkos/common/peaks.hpp"
#include "backends/kokkos/common/run_merged.hpp"
#include "backends/kokkos/common/tile.hpp"
#include "backends/kokkos/factory.hpp"
#include "engine/base/huge_pages.hpp"
#include "engine/base/processor.hpp"
#include "engine/tune/autotuner.hpp"
#include "engine/tune/wall_clock_timer.hpp"

namespace keelson::backends {

namespace {

using kokkos::Index;
using kokkos::Space;

/// A build that tests the device paths says no, even if the CPU can read the memory.
constexpr bool host_memory = Kokkos::SpaceAccessibility<Kokkos::HostSpace, Space::memory_space>::accessible;

/// With the same static partition as the element-wise kernels, so that a page is near the thread that will use it.
void zero_in_parallel(void* memory, std::size_t bytes) {
  constexpr const char* label = "keelson::device::zero";
  auto* p = static_cast<char*>(memory);
  kokkos::for_each_block(
      label, static_cast<Index>(bytes),
      KOKKOS_LAMBDA(Index begin, Index end) {
        for (Index i = begin; i < end; ++i) p[i] = 0;
      },
      16384);
}

/// Unlike Kokkos::deep_copy this function builds no label and so never allocates.
void copy_in_parallel(void* dst, const void* src, std::size_t bytes) {
  constexpr const char* label = "keelson::device::copy";
  auto* to = static_cast<char*>(dst);
  const auto* from = static_cast<const char*>(src);
  kokkos::for_each_block(
      label, static_cast<Index>(bytes),
      KOKKOS_LAMBDA(Index begin, Index end) {
        KEELSON_INDEPENDENT_ITERATIONS
        for (Index i = begin; i < end; ++i) to[i] = from[i];
      },
      65536);
}

/// An allocation in one of Kokkos' memory spaces.
template <class Memory>
auto view(const void* bytes, std::size_t count) {
  using Bytes = Kokkos::View<char*, Memory, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  return Bytes(Kokkos::view_wrap(static_cast<char*>(const_cast<void*>(bytes))), count);
}

/// Copies, and returns when the copy has ended.
template <class To, class From>
void copy_between(const To& to, const From& from) {
  Kokkos::deep_copy(kokkos::space(), to, from);
  kokkos::fence("keelson::device::copy_between");
}

/// Every copy has ended when the call returns, so that there is nothing to wait for.
class KokkosQueue : public Queue {
 public:
  explicit KokkosQueue(Device& device) : device_(device) {}
  void wait_for_device() override { device_.fence(); }
  void device_waits() override {}
  void copy_from_host(void* dst, const void* src, std::size_t bytes) override {
    device_.copy_from_host(dst, src, bytes);
    device_.fence();
  }
  void copy_to_host(void* dst, const void* src, std::size_t bytes) override { device_.copy_to_host(dst, src, bytes); }
  bool idle() override { return true; }
  void wait() override {}
  void* native() override { return nullptr; }

 private:
  Device& device_;
};

/// For builds that test the device paths: launch() calls the recorded function.
class KokkosRecording : public CapturedGraph {
 public:
  explicit KokkosRecording(std::function<void()> work) : work_(std::move(work)) {}
  void launch() override { work_(); }

 private:
  std::function<void()> work_;
};

std::size_t host_memory_bytes() {
  const auto pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGE_SIZE);
  return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) : 0;
}

/// `count` items for the current instance if it has threads of the host, else for all threads of the host.
template <class Host>
Kokkos::RangePolicy<Host> on_host(Index count) {
  if constexpr (std::is_same_v<Host, Space>)
    return {kokkos::space(), 0, count};
  else
    return {0, count};
}

/// Raise this number if stored choices must not be used any more: if a kernel has become faster, or if choices are made
/// in another manner.
constexpr int tuning_version = 3;

/// The part of the cache key that says what the speed depends on. Choices of a portable or a sanitizer build must not
/// be used by a build for this processor.
std::string speed_of_algorithms(const std::string& libraries) {
#if defined(__OPTIMIZE__) && !defined(KEELSON_SANITIZED)
  constexpr const char* kind = "";
#else
  constexpr const char* kind = "-debug";
#endif
  return fmt::format("{}-{}-floats{}{}", processor_model(), kokkos::vector_width, kind, libraries);
}

class KokkosDevice : public Device {
 public:
  explicit KokkosDevice(const std::string& libraries) {
    if (kokkos::runs_on_host)
      autotuner_.emplace(fmt::format("{}-v{}", speed_of_algorithms(libraries), tuning_version),
                         std::make_unique<WallClockTimer>());
  }

  std::string describe() const override {
    const int threads = kokkos::main_instance().concurrency();
    return kokkos::runs_on_host ? fmt::format("{}, {} thread{}", Space::name(), threads, threads == 1 ? "" : "s")
                                : std::string(Space::name());
  }

  bool shares_host_memory() const override { return host_memory && kokkos::runs_on_host; }
  bool is_asynchronous() const override { return !kokkos::runs_on_host; }
  bool can_capture() const override { return !kokkos::runs_on_host && host_memory; }
  bool has_small_caches() const override { return kokkos::runs_on_host; }

  std::shared_ptr<void> allocate(std::size_t bytes, const std::string& label) override {
    const auto size = align64(bytes > 0 ? bytes : 1);
    void* memory = nullptr;
    try {
      if (size <= budget_->left()) memory = Kokkos::kokkos_malloc<Space::memory_space>(label, size);
    } catch (const std::exception&) {
      memory = nullptr;
    }
    if (!memory) budget_->out_of_memory(size, label, describe());
    KEELSON_EXPECT(reinterpret_cast<std::uintptr_t>(memory) % 64 == 0);
    if constexpr (host_memory) prefer_huge_pages(memory, size);
    budget_->used += size;
    std::shared_ptr<void> owner(memory, [size, budget = budget_](void* p) {
      Kokkos::kokkos_free<Space::memory_space>(p);
      budget->used -= size;
    });
    zero_in_parallel(memory, size);
    return owner;
  }

  std::shared_ptr<void> allocate_host(std::size_t bytes, const std::string& label) override {
    const auto size = align64(bytes > 0 ? bytes : 1);
    void* memory = std::aligned_alloc(64, size);
    if (!memory) Budget().out_of_memory(size, label, "the host");
    std::memset(memory, 0, size);
    return std::shared_ptr<void>(memory, std::free);
  }

  DeviceMemory memory() const override {
    DeviceMemory m;
    m.total = host_memory ? host_memory_bytes() : 0;
    m.used = budget_->used;
    m.available = std::min(budget_->left(), m.total > m.used ? m.total - m.used : 0);
    return m;
  }
  void limit_memory(std::size_t bytes) override { budget_->limit = bytes; }

  void copy_from_host(void* dst, const void* src, std::size_t bytes) override {
    if constexpr (host_memory)
      copy_in_parallel(dst, src, bytes);
    else
      copy_between(view<Space::memory_space>(dst, bytes), view<Kokkos::HostSpace>(src, bytes));
  }

  void copy_to_host(void* dst, const void* src, std::size_t bytes) override {
    if constexpr (host_memory)
      copy_in_parallel(dst, src, bytes);
    else
      copy_between(view<Kokkos::HostSpace>(dst, bytes), view<Space::memory_space>(src, bytes));
  }

  void copy(void* dst, const void* src, std::size_t bytes) override { copy_in_parallel(dst, src, bytes); }
  void zero(void* dst, std::size_t bytes) override { zero_in_parallel(dst, bytes); }

  void for_parts_on_host(Index count, const std::function<void(Index, Index)>& work) override {
    constexpr Index part = 4096;
    Kokkos::parallel_for("keelson::device::parts on the host",
                         on_host<Kokkos::DefaultHostExecutionSpace>(kokkos::ceil_div(count, part)),
                         [&](Index i) { work(i * part, std::min(count, (i + 1) * part)); });
  }

  void fence() override { kokkos::fence("keelson::device::fence"); }
  ExecutionInstance& current_instance() override { return kokkos::current_instance(); }
  std::shared_ptr<ExecutionInstance> make_instance(const InstanceOptions& options) override {
    return kokkos::make_instance(options.threads);
  }
  std::unique_ptr<Queue> make_queue() override { return std::make_unique<KokkosQueue>(*this); }
  std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) override {
    KEELSON_EXPECT(can_capture());
    return std::make_unique<KokkosRecording>(work);
  }

  bool merges_launches() const override { return !kokkos::runs_on_host; }
  void run_together(std::size_t count, const std::function<void(std::size_t)>& call) override {
    kokkos::run_merged(count, call);
  }

  int vector_width() const override { return kokkos::vector_width; }

  Autotuner* autotuner() override { return autotuner_ ? &*autotuner_ : nullptr; }

  DevicePeaks measure_peaks() override {
    const auto fma = kokkos::measure_fma_rate();
    const auto threads = static_cast<std::size_t>(kokkos::space().concurrency());
    const auto bytes = std::min<std::size_t>(128 * threads, 2048) << 20;
    const auto src = allocate(bytes, "peaks: source of the copy"), dst = allocate(bytes, "peaks: copy");
    return {fma, kokkos::measure_copy_rate(static_cast<float*>(dst.get()), static_cast<const float*>(src.get()),
                                           static_cast<Index>(bytes / sizeof(float)))};
  }

 private:
  std::shared_ptr<Budget> budget_ = std::make_shared<Budget>();
  std::optional<Autotuner> autotuner_;
};

}  // namespace

std::unique_ptr<Device> make_kokkos_device(const std::string& libraries) {
  if (!Kokkos::is_initialized())
    fail(
        "Kokkos is not initialized; create a keelson::backends::Runtime (or call Kokkos::initialize) before the first "
        "context");
  kokkos::ensure_main_instance([] { return kokkos::make_instance(0); });
  return std::make_unique<KokkosDevice>(libraries);
}

}  // namespace keelson::backends
