#include "engine/train/sync/partners.hpp"

#include <bit>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/base/philox.hpp"

namespace keelson {

GossipPartners gossip_partners(int rank, int ranks, std::uint64_t seed, std::int64_t step) {
  const auto count = static_cast<std::uint64_t>(ranks);
  const auto steps = static_cast<std::int64_t>(std::bit_width(count - 1));  // ceil(log2(ranks))
  const philox::Key key{seed, philox::stream_of("gossip"), static_cast<std::uint64_t>(step / steps)};
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (std::uint64_t i = count - 1; i > 0; --i) std::swap(order[i], order[philox::below(key, i, i + 1)]);
  std::uint64_t place = 0;
  while (order[place] != rank) ++place;
  const std::uint64_t distance = std::uint64_t{1} << (step % steps);  // below the number of ranks
  return {order[(place + distance) % count], order[(place + count - distance) % count]};
}

}  // namespace keelson
