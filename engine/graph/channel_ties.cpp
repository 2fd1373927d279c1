#include "engine/graph/channel_ties.hpp"

#include "engine/graph/layer.hpp"

namespace keelson {

std::vector<std::int64_t> TiedPlace::indices(std::int64_t u, std::int64_t channels) const {
  std::vector<std::int64_t> all;
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) all.push_back(offset + (o * channels + u) * inner + i);
  return all;
}

std::vector<ChannelTie> same_channels(std::span<const ValueShape> srcs) {
  if (srcs[0].shape.rank() < 2) return {};
  ChannelTie tie{srcs[0].shape[1], {TiedPlace::of_dst()}};
  for (int i = 0; i < std::ssize(srcs); ++i) tie.places.push_back(TiedPlace::of_src(i));
  return {tie};
}

}  // namespace keelson
