#include <algorithm>

#include "comm/device/queued_transport.hpp"

namespace keelson::comm::detail {
namespace {

class StagedTransport final : public QueuedTransport {
 public:
  using QueuedTransport::QueuedTransport;
  std::unique_ptr<Collective> make_collective(const CollectiveDesc& desc) override;
  void advance() override;

 private:
  friend class StagedCollective;
};

/// An array on the device, and its copy on the host. No bytes: nothing is copied.
struct StagedArray {
  void* device;
  void* host;
  std::size_t bytes;
};

class StagedCollective final : public QueuedCollective {
 public:
  StagedCollective(StagedTransport& transport, const CollectiveDesc& desc, StagedArray src, StagedArray dst,
                   std::vector<std::shared_ptr<void>> memory, std::unique_ptr<Collective> exchange)
      : QueuedCollective(transport, desc, std::move(exchange), std::move(memory)),
        staged_(transport),
        src_(src),
        dst_(dst) {}
  ~StagedCollective() override { finish(); }

  bool test() override {
    advance();
    if (state_ == State::returning && queue_->idle()) state_ = State::resting;
    return state_ == State::resting;
  }

  /// Returns whether the collective has gone to MPI.
  bool leave() {
    if (state_ == State::exchanging) return true;
    if (!queue_->idle()) return false;
    exchange_->start();
    state_ = State::exchanging;
    return true;
  }

  /// Returns whether MPI has ended the collective.
  bool arrive() {
    if (state_ != State::exchanging || !exchange_->test()) return false;
    if (dst_.bytes > 0) queue_->copy_from_host(dst_.device, dst_.host, dst_.bytes);
    state_ = dst_.bytes > 0 ? State::returning : State::resting;
    return true;
  }

 private:
  bool active() const { return state_ == State::leaving || state_ == State::exchanging; }
  void copy_out() override {
    if (src_.bytes > 0) queue_->copy_to_host(src_.host, src_.device, src_.bytes);
  }
  bool advance() override;
  const QueuedCollective* held_up_by() const override;

  StagedTransport& staged_;
  StagedArray src_, dst_;
};

bool StagedCollective::advance() {
  if (!active()) return true;
  staged_.advance();
  // The oldest may end later than this one: a receive whose sender first waits for this collective.
  if (active() && arrive()) std::erase(staged_.active_, this);
  return !active();
}

/// A long wait for MPI is allowed only after all started collectives have gone to MPI: other ranks may need those
/// first.
const QueuedCollective* StagedCollective::held_up_by() const {
  for (const QueuedCollective* c : staged_.active_)
    if (static_cast<const StagedCollective*>(c)->state_ == State::leaving) return c;
  return nullptr;
}

std::unique_ptr<Collective> StagedTransport::make_collective(const CollectiveDesc& desc) {
  const int rank = channel_->rank(), size = channel_->size();
  const std::size_t src_bytes = desc.src_bytes(rank, size), dst_bytes = desc.dst_bytes(rank, size);
  CollectiveDesc on_host = desc;
  std::vector<std::shared_ptr<void>> memory;
  if (desc.src == desc.dst) {  // src and dst are one array
    memory.push_back(device_.allocate_host(desc.bytes(), desc.label + " on the host"));
    on_host.src = on_host.dst = memory[0].get();
  } else {
    memory.push_back(device_.allocate_host(src_bytes, desc.label + " on the host, source"));
    memory.push_back(device_.allocate_host(dst_bytes, desc.label + " on the host, destination"));
    on_host.src = memory[0].get();
    on_host.dst = memory[1].get();
  }
  const StagedArray src{const_cast<void*>(desc.src), const_cast<void*>(on_host.src), src_bytes};
  const StagedArray dst{desc.dst, on_host.dst, dst_bytes};
  return std::make_unique<StagedCollective>(*this, desc, src, dst, std::move(memory),
                                            channel_->make_collective(on_host));
}

void StagedTransport::advance() {
  const auto staged = [](QueuedCollective* c) { return static_cast<StagedCollective*>(c); };
  for (QueuedCollective* c : active_)
    if (!staged(c)->leave()) break;
  // Collectives mostly end in order, and a test of one collective lets MPI advance all.
  while (!active_.empty() && staged(active_.front())->arrive()) active_.erase(active_.begin());
}

}  // namespace

std::unique_ptr<Transport> make_staged_transport(Communicator& world, Device& device, std::string description) {
  return std::make_unique<StagedTransport>(world, device, std::move(description));
}

}  // namespace keelson::comm::detail
