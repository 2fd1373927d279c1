#pragma once

#include <cstdint>

namespace keelson {

/// With whom a rank averages in a step of gossip: it sends its parameters to one rank, and receives those of another.
struct GossipPartners {
  int to = 0;    ///< the rank that receives its parameters
  int from = 0;  ///< the rank whose parameters it receives
};

/// Dissemination (Hensgen, Finkel, Manber 1988) over ranks in a random order, as GossipGraD has it (Daily et al. 2018):
/// in step k of a round the rank at place i of the order sends to the rank at place i + 2^k, modulo `ranks`. A round
/// has ceil(log2(ranks)) steps; after it, what each rank held has reached all ranks. Each round has another order,
/// drawn from `seed`, so that in time all pairs of ranks meet. A function of the arguments alone. `ranks` > 1; `step`
/// from 0.
GossipPartners gossip_partners(int rank, int ranks, std::uint64_t seed, std::int64_t step);

}  // namespace keelson
