#include "comm/on_device.hpp"

#include <cstdlib>
#include <utility>

#include "comm/detail/transport.hpp"
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

/// The facts of all ranks, in rank order. Collective.
std::vector<TransportFacts> exchange_facts(Communicator& world, Device& device, const std::string& wish) {
  const auto wishes = world.allgather(wish), hosts = world.allgather(world.host()),
             units = world.allgather(device.bus_id());
  std::vector<TransportFacts> ranks;
  for (std::size_t r = 0; r < wishes.size(); ++r) ranks.push_back({wishes[r], hosts[r], units[r]});
  return ranks;
}

/// Null: world's own collectives will do.
std::unique_ptr<Transport> make_transport(Communicator& world, Device& device, const std::string& wish) {
  const auto ranks = exchange_facts(world, device, wish);
  auto plan = plan_transport(ranks, nccl_built);
  if (device.shares_host_memory()) return nullptr;
  if (world.size() == 1) return detail::make_local_transport(device);
  if (plan.nccl) {
    if (auto transport = make_nccl_transport(world, device, plan.why_not_nccl)) return transport;
    if (wish == "nccl") refuse("{}; KEELSON_COLLECTIVES=staged does without it", plan.why_not_nccl);
  }
  const std::string reason =
      nccl_built && !plan.why_not_nccl.empty() ? fmt::format(" (no NCCL: {})", plan.why_not_nccl) : "";
  return plan.mpi ? detail::make_mpi_transport(world, device, "CUDA-aware MPI")
                  : detail::make_staged_transport(world, device, "staged through host memory" + reason);
}

class OnDevice final : public Communicator {
 public:
  OnDevice(Communicator& world, Device& device, std::string wish)
      : world_(world),
        device_(device),
        wish_(std::move(wish)),
        transport_(make_transport(world, device, wish_)),
        watch_(device.watch_waits([this](double seconds) { poll("the device's work", seconds); })) {}
  OnDevice(std::unique_ptr<Communicator> owned, Device& device, std::string wish)
      : owned_(std::move(owned)),
        world_(*owned_),
        device_(device),
        wish_(std::move(wish)),
        transport_(make_transport(world_, device, wish_)) {}

  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  int local_rank() const override { return world_.local_rank(); }
  int local_size() const override { return world_.local_size(); }
  int node() const override { return world_.node(); }
  int nodes() const override { return world_.nodes(); }
  std::string host() const override { return world_.host(); }
  int number() const override { return world_.number(); }
  std::unique_ptr<Communicator> split(int color, int key) override {
    auto part = world_.split(color, key);
    return part ? std::make_unique<OnDevice>(std::move(part), device_, wish_) : nullptr;
  }

  void barrier() override { world_.barrier(); }
  void broadcast(void* data, std::size_t bytes, int root) override { world_.broadcast(data, bytes, root); }
  void allreduce(double* data, std::size_t count, Reduction op) override { world_.allreduce(data, count, op); }
  void allreduce(std::int64_t* data, std::size_t count, Reduction op) override { world_.allreduce(data, count, op); }
  void allreduce(float* data, std::size_t count, Reduction op) override { world_.allreduce(data, count, op); }
  std::vector<std::string> allgather(const std::string& text) override { return world_.allgather(text); }
  std::vector<float> gather(const std::vector<float>& mine, int root) override { return world_.gather(mine, root); }

  Communicator& on_host() override { return world_; }
  void progress() override {
    world_.progress();
    if (transport_) transport_->progress();
  }
  // A host whose device computes does not compute itself: it can call progress() at any time.
  bool use_progress_thread(bool wanted, const std::vector<int>& cpus) override {
    return !transport_ && world_.use_progress_thread(wanted, cpus);
  }
  bool lend() override { return !transport_ && world_.lend(); }
  void reclaim() override { world_.reclaim(); }
  void poll(std::string_view waiting_for, double seconds) override {
    if (transport_)
      transport_->poll(waiting_for, seconds);
    else
      world_.poll(waiting_for, seconds);
  }
  std::string collectives() const override { return transport_ ? transport_->describe() : world_.collectives(); }

  bool survives_losses() const override { return world_.survives_losses(); }
  bool agree(bool good) override {
    const bool all = world_.agree(good);
    if (!all && transport_) transport_->abandon();
    return all;
  }
  LostRanks shrink() override {
    auto lost = world_.shrink();
    transport_.reset();
    connected_ = false;
    return lost;
  }

  void abort(int exit_code) override { world_.abort(exit_code); }

 private:
  std::unique_ptr<Collective> implement(const CollectiveDesc& desc) override {
    if (!connected_) transport_ = make_transport(world_, device_, wish_);
    connected_ = true;
    return transport_ ? transport_->make_collective(desc) : world_.make_collective(desc);
  }

  std::unique_ptr<Communicator> owned_;  ///< a part that split() made; else null
  Communicator& world_;
  Device& device_;
  std::string wish_;
  std::unique_ptr<Transport> transport_;  ///< null: world's own collectives
  bool connected_ = true;                 ///< false after shrink(), until the first collective is made
  std::shared_ptr<void> watch_;           ///< of waits for the device, by the group that all others are parts of
};

}  // namespace

std::unique_ptr<Communicator> on_device(Communicator& world, Device& device, const std::string& wish) {
  const char* variable = std::getenv("KEELSON_COLLECTIVES");
  return std::make_unique<OnDevice>(world, device, variable != nullptr && *variable != '\0' ? variable : wish);
}

}  // namespace keelson::comm
