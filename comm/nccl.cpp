#include <nccl.h>

#include <cstdint>
#include <exception>
#include <utility>

#include "comm/detail/backoff.hpp"
#include "comm/detail/transport.hpp"
#include "engine/base/error.hpp"

// Only in builds with NCCL. The device must be the calling thread's current CUDA device, as its backend leaves it.
namespace keelson::comm::detail {
namespace {

[[noreturn]] void fail_nccl(ncclResult_t result, ncclComm_t comm, const std::string& call) {
  const char* last = ncclGetLastError(comm);
  const std::string detail = last != nullptr && *last != '\0' ? fmt::format(" ({})", last) : "";
  fail("NCCL: {} failed: {}{}; NCCL_DEBUG=WARN tells more", call, ncclGetErrorString(result), detail);
}

std::string version() {
  int v = 0;  // 2.8.4 was 2804, 2.9.0 and all after it 20900
  if (ncclGetVersion(&v) != ncclSuccess) return "NCCL";
  const int factor = v < 10000 ? 1000 : 10000;
  return fmt::format("NCCL {}.{}.{}", v / factor, v % factor / 100, v % 100);
}

/// One rank's part of a clique. Made and used without NCCL's non-blocking mode, which starts a thread for each call.
class Clique {
 public:
  Clique(const ncclUniqueId& id, int size, int rank) {
    if (const auto result = ncclCommInitRank(&comm_, size, id, rank); result != ncclSuccess)
      fail_nccl(result, nullptr, "ncclCommInitRank");
  }
  ~Clique() {
    // Ending it in order waits for all ranks, who may never come. Nobody listens to how that went.
    if (broken_ || std::uncaught_exceptions() > 0)
      ncclCommAbort(comm_);
    else
      ncclCommDestroy(comm_);
  }
  Clique(const Clique&) = delete;

  ncclComm_t get() const { return comm_; }
  /// The result of a call.
  void check(ncclResult_t result, const std::string& call) {
    if (result == ncclSuccess) return;
    broken_ = true;
    fail_nccl(result, comm_, call);
  }
  /// What has become of the calls that returned well.
  void check_calls_under_way() {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
    if (state != ncclInProgress) check(state, "a collective call under way");
  }
  void give_up() { broken_ = true; }

 private:
  ncclComm_t comm_ = nullptr;
  bool broken_ = false;
};

/// All collectives lie in one queue, as NCCL wants the calls of a clique in one order. Waiting for one waits for those
/// started after it too.
class NcclTransport final : public Transport {
 public:
  NcclTransport(Communicator& world, Device& device, std::unique_ptr<Clique> clique)
      : world_(world), clique_(std::move(clique)), queue_(device.make_queue()) {}
  ~NcclTransport() override;

  std::string describe() const override { return version(); }
  std::unique_ptr<Collective> make_allreduce(float* data, std::size_t count, const std::string& label) override {
    return allreduce(data, count, ncclFloat32, label);
  }
  std::unique_ptr<Collective> make_allreduce(double* data, std::size_t count, const std::string& label) override {
    return allreduce(data, count, ncclFloat64, label);
  }
  std::unique_ptr<Collective> make_allgather(const void* mine, void* all, std::size_t bytes,
                                             const std::string& label) override;
  void progress() override { clique().check_calls_under_way(); }
  void poll(std::string_view waiting_for, double seconds) override {
    progress();
    world_.poll(waiting_for, seconds);
  }

 private:
  friend class NcclCollective;

  Clique& clique() {
    if (!clique_) fail("NCCL's collectives were broken off by an earlier failure");
    return *clique_;
  }
  bool idle() noexcept;
  void break_off() noexcept;

  std::unique_ptr<Collective> allreduce(void* data, std::size_t count, ncclDataType_t type, const std::string& label);

  Communicator& world_;
  std::unique_ptr<Clique> clique_;  ///< null once broken off
  std::unique_ptr<Queue> queue_;
  std::uint64_t started_ = 0;  ///< collectives
  std::uint64_t led_ = 0;      ///< of these, those that the device's work waits for already
};

class NcclCollective : public Collective {
 public:
  NcclCollective(NcclTransport& transport, std::string label) : transport_(transport), label_(std::move(label)) {}
  ~NcclCollective() override {
    // The arrays go next, and giving back a device's memory waits for its work, which may wait for ranks that failed.
    if (std::uncaught_exceptions() > 0 && !transport_.idle()) transport_.break_off();
  }
  NcclCollective(const NcclCollective&) = delete;

  void start() override {
    // NCCL connects the ranks when they first need it, and waits for them where no watchdog sees it.
    if (number_ == 0) transport_.world_.barrier();
    transport_.queue_->wait_for_device();
    transport_.clique().check(call(static_cast<cudaStream_t>(transport_.queue_->native())), label_);
    number_ = ++transport_.started_;
  }
  bool test() override {
    if (number_ == 0) return true;
    transport_.progress();
    return transport_.queue_->idle();
  }
  void wait() override {
    if (number_ <= transport_.led_) return;
    transport_.progress();
    transport_.queue_->device_waits();
    transport_.led_ = transport_.started_;
  }

 protected:
  virtual ncclResult_t call(cudaStream_t stream) = 0;
  ncclComm_t clique() const { return transport_.clique().get(); }

 private:
  NcclTransport& transport_;
  std::string label_;
  std::uint64_t number_ = 0;  ///< of its last start; 0: never started
};

class NcclAllreduce final : public NcclCollective {
 public:
  NcclAllreduce(NcclTransport& transport, void* data, std::size_t count, ncclDataType_t type, const std::string& label)
      : NcclCollective(transport, "ncclAllReduce of " + label), data_(data), count_(count), type_(type) {}

 private:
  ncclResult_t call(cudaStream_t stream) override {
    return ncclAllReduce(data_, data_, count_, type_, ncclSum, clique(), stream);
  }
  void* data_;
  std::size_t count_;
  ncclDataType_t type_;
};

class NcclAllgather final : public NcclCollective {
 public:
  NcclAllgather(NcclTransport& transport, const void* mine, void* all, std::size_t bytes, const std::string& label)
      : NcclCollective(transport, "ncclAllGather of " + label), mine_(mine), all_(all), bytes_(bytes) {}

 private:
  ncclResult_t call(cudaStream_t stream) override {
    return ncclAllGather(mine_, all_, bytes_, ncclInt8, clique(), stream);
  }
  const void* mine_;
  void* all_;
  std::size_t bytes_;
};

NcclTransport::~NcclTransport() {
  bool well = clique_ && std::uncaught_exceptions() == 0;
  try {
    Backoff backoff;
    while (well && !queue_->idle())
      if (const double seconds = backoff(); seconds >= Backoff::late) poll("the last collectives by NCCL", seconds);
  } catch (const std::exception&) {
    well = false;
  }
  if (!well) break_off();
}

bool NcclTransport::idle() noexcept {
  try {
    return queue_->idle();
  } catch (const std::exception&) {
    return false;
  }
}

/// Ends what is under way, so that the queue that holds it can end.
void NcclTransport::break_off() noexcept {
  if (clique_) clique_->give_up();
  clique_.reset();
}

std::unique_ptr<Collective> NcclTransport::make_allgather(const void* mine, void* all, std::size_t bytes,
                                                          const std::string& label) {
  return std::make_unique<NcclAllgather>(*this, mine, all, bytes, label);
}

std::unique_ptr<Collective> NcclTransport::allreduce(void* data, std::size_t count, ncclDataType_t type,
                                                     const std::string& label) {
  return std::make_unique<NcclAllreduce>(*this, data, count, type, label);
}

/// Rank 0's, on all ranks. Throws Error on all ranks where it has none.
ncclUniqueId common_id(Communicator& world) {
  struct {
    ncclUniqueId id;
    ncclResult_t result;
  } root{};
  if (world.rank() == 0) root.result = ncclGetUniqueId(&root.id);
  world.broadcast(&root, sizeof root, 0);
  if (root.result != ncclSuccess) fail_nccl(root.result, nullptr, "ncclGetUniqueId on rank 0");
  return root.id;
}

}  // namespace

std::unique_ptr<Transport> make_nccl_transport(Communicator& world, Device& device, std::string& why) {
  std::unique_ptr<Clique> clique;
  std::string trouble;
  try {
    clique = std::make_unique<Clique>(common_id(world), world.size(), world.rank());
  } catch (const Error& error) {
    trouble = error.what();
  }
  const auto troubles = world.allgather(trouble);
  for (std::size_t r = 0; r < troubles.size(); ++r) {
    if (troubles[r].empty()) continue;
    if (clique) clique->give_up();
    why = fmt::format("rank {}: {}", r, troubles[r]);
    return nullptr;
  }
  return std::make_unique<NcclTransport>(world, device, std::move(clique));
}

}  // namespace keelson::comm::detail
