#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/base/communicator.hpp"
#include "engine/ops/context.hpp"

namespace keelson::comm::detail {

/// Moves arrays in a device's memory between the ranks of a group. The collectives are those of on_device(). A
/// transport must outlive its collectives.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string describe() const = 0;
  virtual std::unique_ptr<Collective> make_collective(const CollectiveDesc& desc) = 0;
  virtual void advance() {}                       ///< see ProgressEngine::advance()
  virtual void poll(std::string_view, double) {}  ///< see Watchdog::poll()
  /// Ends started collectives, without finishing them, after a loss of ranks. Then nothing uses their arrays.
  virtual void abandon() {}
};

/// By MPI, through host memory. Collective.
std::unique_ptr<Transport> make_staged_transport(Communicator& world, Device& device, std::string description);

/// By MPI, directly from and to the device's memory, by calls that a CUDA-aware MPI supports. test() of a collective of
/// all ranks may block until all ranks call test() or wait(). Throws InputError if `world` does not use MPI.
/// Collective.
std::unique_ptr<Transport> make_mpi_transport(Communicator& world, Device& device, std::string description);

/// By NCCL, in builds with NCCL (KEELSON_HAVE_NCCL). If NCCL does not start on a rank, all ranks get null, and `why` is
/// the reason. Collective.
std::unique_ptr<Transport> make_nccl_transport(Communicator& world, Device& device, std::string& why);

/// The facts of one rank that decide about the transport.
struct TransportFacts {
  std::string requested;     ///< "", "auto", "nccl", "mpi" or "staged"
  std::string host, bus_id;  ///< machine and GPU of the rank; an empty bus id: no other rank uses the device
};

/// The transports to try: NCCL, then MPI on the device's memory. Staging through host memory is the last and always
/// works.
struct TransportPlan {
  bool nccl = false;
  bool mpi = false;  ///< only on request, since few MPI libraries handle device memory well
  std::string why_not_nccl;
};

/// The plan for the facts of all ranks, in rank order: the same on all ranks. Throws InputError if the requests are
/// unknown, differ between ranks, or are not supported.
TransportPlan plan_transport(const std::vector<TransportFacts>& ranks, bool nccl_built);

}  // namespace keelson::comm::detail
