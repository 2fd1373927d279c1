#include <map>
#include <utility>

#include "comm/device/transport.hpp"
#include "engine/base/error.hpp"

namespace keelson::comm::detail {
namespace {

/// "ranks 0 and 2 share the GPU 0000:1b:00.0 of node7", or nothing.
std::string shared_gpu(const std::vector<TransportFacts>& ranks) {
  std::map<std::pair<std::string, std::string>, std::size_t> owners;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].bus_id.empty()) continue;
    const auto [owner, first] = owners.insert({{ranks[r].host, ranks[r].bus_id}, r});
    if (!first)
      return fmt::format("ranks {} and {} share the GPU {} of {}", owner->second, r, ranks[r].bus_id, ranks[r].host);
  }
  return "";
}

}  // namespace

TransportPlan plan_transport(const std::vector<TransportFacts>& ranks, bool nccl_built) {
  const std::string& requested = ranks.at(0).requested;
  if (requested != "" && requested != "auto" && requested != "nccl" && requested != "mpi" && requested != "staged")
    refuse("collectives '{}' (KEELSON_COLLECTIVES): expected auto, nccl, mpi or staged", requested);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].requested != requested)
      refuse("rank {} requests collectives '{}', rank 0 '{}': set KEELSON_COLLECTIVES to the same on all ranks", r,
             ranks[r].requested, requested);
  }
  TransportPlan plan;
  plan.why_not_nccl = nccl_built ? shared_gpu(ranks) : "this build has no NCCL";
  plan.nccl = requested != "mpi" && requested != "staged" && plan.why_not_nccl.empty();
  plan.mpi = requested == "mpi";
  if (requested == "nccl" && !plan.nccl)
    refuse("collectives 'nccl' are not available: {}; {}, or choose KEELSON_COLLECTIVES=staged", plan.why_not_nccl,
           nccl_built ? "start one rank per GPU" : "configure with -DKEELSON_WITH_NCCL=ON");
  return plan;
}

}  // namespace keelson::comm::detail
