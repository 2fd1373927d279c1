#pragma once

#include <cstddef>
#include <cstdint>

#include "insitu/field.hpp"

/// Kernels that move values between fields and networks, on the device's current instance.
namespace keelson::insitu {

/// Waits for all work that the host program has queued on the device.
void wait_for_host();

/// How a field's values become a channel: x * scale + offset; with `logarithm`, log(x + 1) takes the place of x.
struct ChannelScale {
  float scale = 1, offset = 0;
  bool logarithm = false;
};

/// Tiles of a field, in memory that the device can reach.
struct TiledField {
  const HostField* field = nullptr;
  std::byte* data = nullptr;              ///< reach() of the field
  const std::int64_t* origins = nullptr;  ///< three for each tile, on the device
  std::int64_t first = 0;                 ///< the tile of the first slot
  std::int64_t tiles = 0;                 ///< number of slots
  Triple tile{1, 1, 1}, halo{};
};

/// A channel of all slots of a batch: pointer to the first slot, and element strides.
struct BatchChannel {
  void* data = nullptr;
  std::int64_t slot = 0;
  Triple strides{};
};

/// Writes the tiles with their halo to f32 slots. Beyond the ghost cells, the outermost ones are repeated.
void pack(const TiledField& from, const BatchChannel& to, const ChannelScale& scale);
/// The same, rounded to s32: numbers of classes. Cells of the halo get -1, which the loss ignores, since results there
/// are dropped.
void pack_classes(const TiledField& from, const BatchChannel& to);
/// Writes the inner cells of f32 slots to the field; of tiles that overlap, the first one writes. `classes` 0: writes
/// the channel of `from`; else the index of the largest of `classes` channels, which are `channel_stride` elements
/// apart.
void unpack(const BatchChannel& from, const TiledField& to, std::int64_t classes, std::int64_t channel_stride);
/// Writes the mean over the inner cells of each slot to `scores`, one f32 per tile, summed in f64 in an order that
/// depends on the tile's extents alone. `classes` as in unpack(). `scratch`: score_scratch_bytes() of device memory.
void score(const BatchChannel& from, const TiledField& tiles, std::int64_t classes, std::int64_t channel_stride,
           float* scores, void* scratch);
std::size_t score_scratch_bytes(const Triple& tile, std::int64_t tiles);
/// Copies the interior of a field to `dense`, in row-major order without gaps, in the field's own type.
void copy_interior(const HostField& field, const std::byte* data, void* dense);

}  // namespace keelson::insitu
