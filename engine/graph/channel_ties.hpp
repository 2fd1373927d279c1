#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace keelson {

/// A place of a layer where the channels of a ChannelTie lie: a dimension of a source, of the result or of a parameter.
/// Channel u of `channels` is there the indices offset + (o * channels + u) * inner + i, for all o < outer, i < inner.
struct TiedPlace {
  /// A source, the result or a parameter of the layer.
  enum class Of : std::uint8_t { src, dst, parameter };
  Of of = Of::dst;             ///< what has the dimension
  int src = 0;                 ///< of a source: its number
  std::string parameter = {};  ///< of a parameter: the layer's own name for it ("weights")
  int dim = 1;                 ///< the dimension; of a recurrent state 2
  /// Blocks of channels one after the other (the gates of a recurrent layer; the pixels of a flattened value with
  /// channels last), and indices of each channel in a block (the pixels of a flattened value).
  std::int64_t outer = 1, inner = 1;
  std::int64_t offset = 0;  ///< of the result alone, where the channels of several ties lie one after the other
  /// Of a parameter: the layer multiplies the channel by these elements. If they are zero, the channel has no effect on
  /// this layer's result. false: these elements help to make the channel.
  bool reads = false;

  /// The channels of source number `src`.
  static TiedPlace of_src(int src = 0, std::int64_t outer = 1, std::int64_t inner = 1) {
    return {.of = Of::src, .src = src, .outer = outer, .inner = inner};
  }
  /// The channels of the result.
  static TiedPlace of_dst(std::int64_t outer = 1, std::int64_t inner = 1) { return {.outer = outer, .inner = inner}; }
  /// Elements that help to make the channel.
  static TiedPlace makes(std::string parameter, int dim, std::int64_t outer = 1, std::int64_t inner = 1) {
    return {.of = Of::parameter, .parameter = std::move(parameter), .dim = dim, .outer = outer, .inner = inner};
  }
  /// Elements by which the layer multiplies the channel.
  static TiedPlace multiplies(std::string parameter, int dim) {
    return {.of = Of::parameter, .parameter = std::move(parameter), .dim = dim, .reads = true};
  }

  /// The extent of the dimension that `channels` channels take.
  std::int64_t extent(std::int64_t channels) const { return outer * channels * inner; }
  /// The indices of channel `u` of `channels`, ascending.
  std::vector<std::int64_t> indices(std::int64_t u, std::int64_t channels) const;
};

/// Channels that exist in several places of a layer at once: a channel can be removed, added or moved only in all of
/// them together (Layer::channel_ties). Example: channel u of a batch normalization's source, of its result, and
/// element u of scale, shift, mean and variance.
struct ChannelTie {
  std::int64_t channels = 0;      ///< how many there are; of a grouped convolution: the number of groups
  std::vector<TiedPlace> places;  ///< where they are
};

}  // namespace keelson
