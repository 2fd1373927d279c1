#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/base/communicator.hpp"
#include "engine/ops/context.hpp"

namespace keelson::comm::detail {

/// A way for arrays in a device's memory between the ranks of a group. The calls are those of Communicator, with the
/// promises of on_device(). It outlives its collectives.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string describe() const = 0;
  virtual std::unique_ptr<Collective> make_collective(const CollectiveDesc& desc) = 0;
  virtual void progress() = 0;
  virtual void poll(std::string_view waiting_for, double seconds) = 0;
  /// Ends what is under way, unfinished, after a loss of ranks. The arrays are then free.
  virtual void abandon() {}
};

/// Of one rank, which sends nothing.
std::unique_ptr<Transport> make_local_transport(Device& device);

/// Of MPI, through host memory. Collective.
std::unique_ptr<Transport> make_staged_transport(Communicator& world, Device& device, std::string description);

/// Of MPI, from and to the device's memory itself, by calls that a CUDA-aware MPI supports. test() of a collective of
/// all ranks may block until all ranks test it or wait for it. Throws InputError where `world` is not one of MPI.
/// Collective.
std::unique_ptr<Transport> make_mpi_transport(Communicator& world, Device& device, std::string description);

/// Of NCCL, in builds that have it (KEELSON_HAVE_NCCL). Null where it does not start on a rank, on all ranks alike,
/// with the reason in `why`. Collective.
std::unique_ptr<Transport> make_nccl_transport(Communicator& world, Device& device, std::string& why);

/// What decides about the transport, of one rank.
struct TransportFacts {
  std::string wish;          ///< "", "auto", "nccl", "mpi" or "staged"
  std::string host, bus_id;  ///< where it computes; an empty bus id is a device of its own
};

/// The transports to try, first first; staging through host memory comes last and always works.
struct TransportPlan {
  bool nccl = false;
  bool mpi = false;  ///< on the device's memory: only where the user asks for it, since few MPIs do that well
  std::string why_not_nccl;
};

/// Pure: the same facts, those of all ranks in rank order, lead to the same plan on all. Throws InputError where the
/// wishes are unknown, differ, or cannot be had.
TransportPlan plan_transport(const std::vector<TransportFacts>& ranks, bool nccl_built);

}  // namespace keelson::comm::detail
