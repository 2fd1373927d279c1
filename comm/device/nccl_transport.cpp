#include <nccl.h>

#include <cstdint>
#include <exception>
#include <utility>

#include "comm/device/transport.hpp"
#include "comm/watch/watched_call.hpp"
#include "engine/base/backoff.hpp"
#include "engine/base/error.hpp"

// Only in builds with NCCL. The device must be the calling thread's current CUDA device; the backend sets it.
namespace keelson::comm::detail {
namespace {

[[noreturn]] void fail_nccl(ncclResult_t result, ncclComm_t comm, const std::string& call, bool survives = false) {
  const char* last = ncclGetLastError(comm);
  const std::string detail = last != nullptr && *last != '\0' ? fmt::format(" ({})", last) : "";
  const auto text =
      fmt::format("NCCL: {} failed: {}{}; NCCL_DEBUG=WARN shows more", call, ncclGetErrorString(result), detail);
  if (survives) throw RanksLost(text);  // the ranks that are left make another group
  throw Error(text);
}

std::string version() {
  int v = 0;  // 2.8.4 was 2804, 2.9.0 and all after it 20900
  if (ncclGetVersion(&v) != ncclSuccess) return "NCCL";
  const int factor = v < 10000 ? 1000 : 10000;
  return fmt::format("NCCL {}.{}.{}", v / factor, v % factor / 100, v % 100);
}

/// One rank's communicator of NCCL. It is made and used without NCCL's non-blocking mode, which starts a thread for
/// each call.
class NcclGroup {
 public:
  NcclGroup(Communicator& world, Device& device, const ncclUniqueId& id) : survives_(world.survives_losses()) {
    struct Made {
      ncclComm_t comm = nullptr;
      ncclResult_t result = ncclSuccess;
    };
    const auto made = std::make_shared<Made>();
    const int size = world.size(), rank = world.rank();
    // ncclCommInitRank waits for all ranks.
    call_watched(world, "ncclCommInitRank", [made, size, rank, id, &device] {
      {
        const InstanceScope scope(device.current_instance());
      }  // sets this thread's GPU, also for the following calls
      made->result = ncclCommInitRank(&made->comm, size, id, rank);
    });
    if (made->result != ncclSuccess) fail_nccl(made->result, nullptr, "ncclCommInitRank");
    comm_ = made->comm;
  }
  ~NcclGroup() {
    // ncclCommDestroy waits for all ranks, which may never come. The results of the two calls are ignored.
    if (broken_ || std::uncaught_exceptions() > 0)
      ncclCommAbort(comm_);
    else
      ncclCommDestroy(comm_);
  }
  NcclGroup(const NcclGroup&) = delete;

  ncclComm_t get() const { return comm_; }
  /// Throws Error, or RanksLost, if the result of a call is not ncclSuccess.
  void check(ncclResult_t result, const std::string& call) {
    if (result == ncclSuccess) return;
    broken_ = true;
    fail_nccl(result, comm_, call, survives_);
  }
  /// Throws if a call has failed after it returned without an error.
  void check_active_calls() {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
    if (state != ncclInProgress) check(state, "a collective call under way");
  }
  void give_up() { broken_ = true; }

 private:
  ncclComm_t comm_ = nullptr;
  bool survives_;  ///< the group of ranks survives losses
  bool broken_ = false;
};

/// All collectives are in one queue, since NCCL needs the calls of a communicator in one order. A wait for a collective
/// also waits for collectives that were started later. Consecutive sends and receives go to NCCL as one group
/// (ncclGroupStart) when one of them is waited for or a collective of all ranks starts: without a group, the first
/// would block the device for the next.
class NcclTransport final : public Transport {
 public:
  NcclTransport(Communicator& world, Device& device, std::unique_ptr<NcclGroup> group)
      : world_(world), group_(std::move(group)), queue_(device.make_urgent_queue()) {}
  ~NcclTransport() override;

  std::string describe() const override { return version(); }
  std::unique_ptr<Collective> make_collective(const CollectiveDesc& desc) override;
  void advance() override { group().check_active_calls(); }
  void poll(std::string_view waiting_for, double seconds) override {
    advance();
    world_.watchdog().poll(waiting_for, seconds);
  }
  void abandon() override { break_off(); }

 private:
  friend class NcclCollective;

  NcclGroup& group() {
    if (!group_) fail("NCCL's collectives were ended by an earlier failure");
    return *group_;
  }
  bool idle() noexcept;
  void break_off() noexcept;

  void call(const CollectiveDesc& desc);  ///< calls NCCL
  void call_messages();                   ///< calls NCCL for all delayed sends and receives

  Communicator& world_;
  std::unique_ptr<NcclGroup> group_;  ///< null after break_off()
  std::unique_ptr<Queue> queue_;
  std::vector<const CollectiveDesc*> messages_;  ///< sends and receives that were started and delayed
  std::size_t messages_made_ = 0;                ///< sends and receives alive: messages_ has room for all of them
  std::uint64_t started_ = 0;                    ///< collectives
  std::uint64_t awaited_ = 0;                    ///< those that the device's work already waits for
};

class NcclCollective final : public Collective {
 public:
  NcclCollective(NcclTransport& transport, const CollectiveDesc& desc) : transport_(transport), desc_(desc) {
    if (desc.point_to_point()) transport_.messages_.reserve(++transport_.messages_made_);
  }
  ~NcclCollective() override {
    if (desc_.point_to_point()) --transport_.messages_made_;
    std::erase(transport_.messages_, &desc_);
    // The arrays are freed next. Freeing waits for the device's work, which may wait for ranks that failed.
    if (std::uncaught_exceptions() > 0 && !transport_.idle()) transport_.break_off();
  }
  NcclCollective(const NcclCollective&) = delete;

  void start() override {
    if (desc_.point_to_point()) {
      transport_.queue_->wait_for_device();
      transport_.messages_.push_back(&desc_);
    } else {
      transport_.call_messages();
      // NCCL connects the ranks in the first call. This barrier waits for the ranks before, under the watchdog.
      if (number_ == 0) transport_.world_.barrier();
      transport_.queue_->wait_for_device();
      transport_.call(desc_);
    }
    number_ = ++transport_.started_;
  }
  bool test() override {
    if (number_ == 0) return true;
    transport_.call_messages();
    transport_.advance();
    return transport_.queue_->idle();
  }
  void wait() override {
    if (number_ <= transport_.awaited_) return;
    transport_.call_messages();
    transport_.advance();
    transport_.queue_->device_waits();
    transport_.awaited_ = transport_.started_;
  }

 private:
  NcclTransport& transport_;
  CollectiveDesc desc_;
  std::uint64_t number_ = 0;  ///< number of its last start; 0: never started
};

NcclTransport::~NcclTransport() {
  bool well = group_ && std::uncaught_exceptions() == 0;
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

/// Ends active collectives, so that their queue can end.
void NcclTransport::break_off() noexcept {
  if (group_) group_->give_up();
  group_.reset();
}

ncclDataType_t nccl_type(CollectiveDesc::Element element) {
  using Element = CollectiveDesc::Element;
  return element == Element::byte ? ncclInt8 : element == Element::f32 ? ncclFloat32 : ncclFloat64;
}

const char* nccl_name(CollectiveDesc::Kind kind) {
  constexpr const char* names[] = {
      "ncclAllReduce", "ncclReduceScatter", "ncclAllGather", "ncclSend and ncclRecv of an all-to-all",
      "ncclBroadcast", "ncclSend",          "ncclRecv"};
  return names[static_cast<int>(kind)];
}

/// A send and a receive for each rank, in a group, so that no call waits for the next one.
ncclResult_t all_to_all(const CollectiveDesc& d, int size, ncclComm_t comm, cudaStream_t stream) {
  ncclResult_t result = ncclGroupStart();
  for (int rank = 0; rank < size && result == ncclSuccess; ++rank) {
    const std::size_t part = static_cast<std::size_t>(rank) * d.bytes();
    result = ncclSend(static_cast<const char*>(d.src) + part, d.count, ncclInt8, rank, comm, stream);
    if (result == ncclSuccess)
      result = ncclRecv(static_cast<char*>(d.dst) + part, d.count, ncclInt8, rank, comm, stream);
  }
  const ncclResult_t end = ncclGroupEnd();
  return result == ncclSuccess ? end : result;
}

ncclResult_t call_nccl(const CollectiveDesc& d, int size, ncclComm_t comm, cudaStream_t stream) {
  using Kind = CollectiveDesc::Kind;
  const ncclDataType_t type = nccl_type(d.element);
  switch (d.kind) {
    case Kind::allreduce:
      return ncclAllReduce(d.src, d.dst, d.count, type, ncclSum, comm, stream);
    case Kind::reduce_scatter:
      return ncclReduceScatter(d.src, d.dst, d.count, type, ncclSum, comm, stream);
    case Kind::allgather:
      return ncclAllGather(d.src, d.dst, d.count, type, comm, stream);
    case Kind::all_to_all:
      return all_to_all(d, size, comm, stream);
    case Kind::broadcast:
      return ncclBroadcast(d.src, d.dst, d.count, type, d.peer, comm, stream);
    case Kind::send:
      return ncclSend(d.src, d.count, type, d.peer, comm, stream);
    case Kind::receive:
      break;
  }
  return ncclRecv(d.dst, d.count, type, d.peer, comm, stream);
}

std::unique_ptr<Collective> NcclTransport::make_collective(const CollectiveDesc& desc) {
  if (desc.order != SumOrder::any)
    refuse(
        "{}: NCCL adds in its own order; set KEELSON_COLLECTIVES=staged for sums in a fixed order "
        "(--reproducible)",
        desc.label);
  if (desc.wire != Wire::fp32)
    refuse("{}: NCCL sends fp32; give --wire fp32, or set KEELSON_COLLECTIVES=staged", desc.label);
  CollectiveDesc named = desc;
  named.label = fmt::format("{} of {}", nccl_name(desc.kind), desc.label);
  return std::make_unique<NcclCollective>(*this, named);
}

void NcclTransport::call(const CollectiveDesc& desc) {
  if (desc.count == 0) return;  // on all ranks that take part
  const auto stream = static_cast<cudaStream_t>(queue_->native());
  group().check(call_nccl(desc, world_.size(), group().get(), stream), desc.label);
}

void NcclTransport::call_messages() {
  if (messages_.empty()) return;
  const CollectiveDesc& first = *messages_.front();
  group().check(ncclGroupStart(), "ncclGroupStart");
  try {
    for (const CollectiveDesc* desc : messages_) call(*desc);
  } catch (const Error&) {
    messages_.clear();
    ncclGroupEnd();
    throw;
  }
  messages_.clear();
  group().check(ncclGroupEnd(), first.label);
}

/// The id that rank 0 has made, on all ranks. Throws Error on all ranks if rank 0 has failed.
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
  std::unique_ptr<NcclGroup> group;
  std::string trouble;
  try {
    group = std::make_unique<NcclGroup>(world, device, common_id(world));
  } catch (const Error& error) {
    trouble = error.what();
  }
  const auto troubles = world.allgather(trouble);
  for (std::size_t r = 0; r < troubles.size(); ++r) {
    if (troubles[r].empty()) continue;
    if (group) group->give_up();
    why = fmt::format("rank {}: {}", r, troubles[r]);
    return nullptr;
  }
  return std::make_unique<NcclTransport>(world, device, std::move(group));
}

}  // namespace keelson::comm::detail
