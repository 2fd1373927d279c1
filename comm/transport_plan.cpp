#include <map>
#include <utility>

#include "comm/detail/transport.hpp"
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
  const std::string& wish = ranks.at(0).wish;
  if (wish != "" && wish != "auto" && wish != "nccl" && wish != "mpi" && wish != "staged")
    refuse("collectives '{}' (KEELSON_COLLECTIVES): expected auto, nccl, mpi or staged", wish);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].wish != wish)
      refuse("rank {} wants collectives '{}', rank 0 '{}': set KEELSON_COLLECTIVES alike on all ranks", r,
             ranks[r].wish, wish);
  }
  TransportPlan plan;
  plan.why_not_nccl = nccl_built ? shared_gpu(ranks) : "this build has no NCCL";
  plan.nccl = wish != "mpi" && wish != "staged" && plan.why_not_nccl.empty();
  plan.mpi = wish == "mpi";
  if (wish == "nccl" && !plan.nccl)
    refuse("collectives 'nccl' cannot be had: {}; {}, or choose KEELSON_COLLECTIVES=staged", plan.why_not_nccl,
           nccl_built ? "start one rank per GPU" : "configure with -DKEELSON_WITH_NCCL=ON");
  return plan;
}

}  // namespace keelson::comm::detail
