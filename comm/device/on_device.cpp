#include "comm/on_device.hpp"

#include <utility>

#include "comm/device/transport.hpp"
#include "comm/local/collectives.hpp"
#include "engine/base/environment.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm {
namespace {

using detail::Transport;
using detail::TransportFacts;

#ifdef KEELSON_HAVE_NCCL
constexpr bool nccl_built = true;
using detail::make_nccl_transport;
#else
constexpr bool nccl_built = false;
std::unique_ptr<Transport> make_nccl_transport(Communicator&, Device&, std::string&) { return nullptr; }
#endif

/// For one rank, which sends nothing.
class LocalTransport final : public Transport {
 public:
  explicit LocalTransport(Device& device)
      : collectives_([&device](void* dst, const void* src, std::size_t bytes) { device.copy(dst, src, bytes); }) {}
  std::string describe() const override { return ""; }
  std::unique_ptr<Collective> make_collective(const CollectiveDesc& desc) override { return collectives_.make(desc); }

 private:
  detail::LocalCollectives collectives_;
};

/// The facts of all ranks, in rank order. Collective.
std::vector<TransportFacts> exchange_facts(Communicator& world, Device& device, const std::string& requested) {
  const auto requests = world.allgather(requested), hosts = world.allgather(world.host()),
             units = world.allgather(device.bus_id());
  std::vector<TransportFacts> ranks;
  for (std::size_t r = 0; r < requests.size(); ++r) ranks.push_back({requests[r], hosts[r], units[r]});
  return ranks;
}

/// Null: the world's own collectives can use the memory. NCCL serves one rank only on request, so that a machine with
/// one GPU can test NCCL.
std::unique_ptr<Transport> make_transport(Communicator& world, Device& device, const std::string& requested) {
  const auto ranks = exchange_facts(world, device, requested);
  auto plan = plan_transport(ranks, nccl_built);
  if (device.shares_host_memory()) return nullptr;
  if (world.size() == 1 && requested != "nccl") return std::make_unique<LocalTransport>(device);
  if (plan.nccl) {
    if (auto transport = make_nccl_transport(world, device, plan.why_not_nccl)) return transport;
    if (requested == "nccl") refuse("{}; KEELSON_COLLECTIVES=staged works without NCCL", plan.why_not_nccl);
  }
  const std::string reason =
      nccl_built && !plan.why_not_nccl.empty() ? fmt::format(" (no NCCL: {})", plan.why_not_nccl) : "";
  return plan.mpi ? detail::make_mpi_transport(world, device, "CUDA-aware MPI")
                  : detail::make_staged_transport(world, device, "staged through host memory" + reason);
}

/// Only collectives and progress differ from those of the world.
class OnDevice final : public Communicator, private ProgressEngine, private Watchdog, private FaultTolerance {
 public:
  OnDevice(Communicator& world, Device& device, std::string requested)
      : world_(world),
        device_(device),
        requested_(std::move(requested)),
        transport_(make_transport(world, device, requested_)),
        watch_(device.watch_waits([this](double seconds) { poll("the device's work", seconds); })) {}
  OnDevice(std::unique_ptr<Communicator> owned, Device& device, std::string requested)
      : owned_(std::move(owned)),
        world_(*owned_),
        device_(device),
        requested_(std::move(requested)),
        transport_(make_transport(world_, device, requested_)) {}

  const RankInfo& info() const override { return world_.info(); }
  std::unique_ptr<Communicator> split(int color, int key) override {
    auto part = world_.split(color, key);
    return part ? std::make_unique<OnDevice>(std::move(part), device_, requested_) : nullptr;
  }

  void barrier() override { world_.barrier(); }
  void broadcast(void* data, std::size_t bytes, int root) override { world_.broadcast(data, bytes, root); }
  void reduce(void* data, Number type, std::size_t count, Reduction op) override {
    world_.reduce(data, type, count, op);
  }
  std::vector<std::string> allgather(const std::string& text) override { return world_.allgather(text); }
  std::vector<float> gather(const std::vector<float>& mine, int root) override { return world_.gather(mine, root); }

  Communicator& on_host() override { return world_; }
  std::string transport() const override { return transport_ ? transport_->describe() : world_.transport(); }
  ProgressEngine& progress() override { return *this; }
  Watchdog& watchdog() override { return *this; }
  FaultTolerance* fault_tolerance() override { return world_.survives_losses() ? this : nullptr; }

 private:
  void advance() override {
    world_.progress().advance();
    if (transport_) transport_->advance();
  }
  // While the device computes, the host does not: it can call advance() at any time.
  bool use_thread(bool wanted, const std::vector<int>& cpus) override {
    return !transport_ && world_.progress().use_thread(wanted, cpus);
  }
  bool resume_thread() override { return !transport_ && world_.progress().resume_thread(); }
  void pause_thread() override { world_.progress().pause_thread(); }

  void poll(std::string_view waiting_for, double seconds) override {
    if (transport_)
      transport_->poll(waiting_for, seconds);
    else
      world_.watchdog().poll(waiting_for, seconds);
  }

  bool agree(bool good) override {
    const bool all = world_.fault_tolerance()->agree(good);
    if (!all && transport_) transport_->abandon();
    return all;
  }
  bool wait_as_spare() override { return world_.fault_tolerance()->wait_as_spare(); }
  LostRanks shrink() override {
    auto lost = world_.fault_tolerance()->shrink();
    transport_.reset();
    connected_ = false;
    return lost;
  }

  std::unique_ptr<Collective> implement(const CollectiveDesc& desc) override {
    if (!connected_) transport_ = make_transport(world_, device_, requested_);
    connected_ = true;
    return transport_ ? transport_->make_collective(desc) : world_.make_collective(desc);
  }

  std::unique_ptr<Communicator> owned_;  ///< if split() made this object: the world's part; else null
  Communicator& world_;
  Device& device_;
  std::string requested_;
  std::unique_ptr<Transport> transport_;  ///< null: the world's own collectives
  bool connected_ = true;                 ///< false after shrink(), until the first collective is made
  /// registers the watchdog for waits for the device; only in the group that was not made by split()
  std::shared_ptr<void> watch_;
};

}  // namespace

std::unique_ptr<Communicator> on_device(Communicator& world, Device& device, const std::string& requested) {
  const std::string variable = environment("KEELSON_COLLECTIVES");
  return std::make_unique<OnDevice>(world, device, variable.empty() ? requested : variable);
}

}  // namespace keelson::comm
