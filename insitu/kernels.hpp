#pragma once

#include <cstdint>

#include "insitu/field.hpp"

/// What moves values between fields and networks, on the device's current instance.
namespace keelson::insitu {

/// Waits for all that the host program has queued on the device.
void wait_for_host();

/// How a field's values become a channel: x * scale + offset, of log(x + 1) where `logarithm`.
struct ChannelScale {
  float scale = 1, offset = 0;
  bool logarithm = false;
};

/// Tiles of a field, in memory that the device reaches.
struct TiledField {
  const Field* field = nullptr;
  std::byte* data = nullptr;              ///< reach() of the field
  const std::int64_t* origins = nullptr;  ///< three for each tile, on the device
  std::int64_t first = 0;                 ///< the tile of the first slot
  std::int64_t tiles = 0;                 ///< slots
  Triple tile{1, 1, 1}, halo{};
};

/// Where a channel of each slot lies: element strides. The data are those of the first slot.
struct Slots {
  void* data = nullptr;
  std::int64_t slot = 0;
  Triple strides{};
};

/// The tiles with their halo to f32 slots. Beyond the ghost cells the outermost ones are repeated.
void pack(const TiledField& from, const Slots& to, const ChannelScale& scale);
/// The same, rounded to s32: numbers of classes. -1, which does not count, in the halo: results there are dropped.
void pack_classes(const TiledField& from, const Slots& to);
/// The inner cells of f32 slots to the field, each cell by the first tile that has it. `classes` 0: of this channel;
/// else the number of the largest of so many channels, `channel_stride` elements from each other.
void unpack(const Slots& from, const TiledField& to, std::int64_t classes, std::int64_t channel_stride);
/// The mean over the inner cells of each slot, to one f32 for each tile, in a fixed order. `classes` as unpack().
void score(const Slots& from, const TiledField& tiles, std::int64_t classes, std::int64_t channel_stride,
           float* scores);
/// The interior of a field, densely in row-major order, in the field's own type.
void copy_interior(const Field& field, const std::byte* data, void* dense);

}  // namespace keelson::insitu
