#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "apps/cosmoflow/data/detail/decode.hpp"
#include "engine/base/error.hpp"

namespace keelson::cosmoflow::detail {

namespace {

constexpr std::uint32_t magnitude_mask = 0x7fffffff, infinity_bits = 0x7f800000;

std::uint32_t magnitude_bits(float v) { return std::bit_cast<std::uint32_t>(v) & magnitude_mask; }

/// One loop over an axis of the box: its extent, and the steps in src and dst.
struct Loop {
  std::int64_t extent, src, dst;
};

/// Returns the largest magnitude written, as bits: at least infinity_bits if a value is not finite.
template <class T, class Map>
std::uint32_t copy_voxels(const T* src, float* dst, const std::array<Loop, 3>& loop, const VoxelFormat& format,
                          Map map) {
  const auto channels = static_cast<std::int64_t>(format.channels.size());
  bool in_order = channels == format.stored_channels;
  for (std::int64_t c = 0; in_order && c < channels; ++c) in_order = format.channels[c] == c;
  const bool flat = in_order && loop[2].src == channels && loop[2].dst == channels;
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < loop[0].extent; ++i) {
    for (std::int64_t j = 0; j < loop[1].extent; ++j) {
      const T* from = src + i * loop[0].src + j * loop[1].src;
      float* to = dst + i * loop[0].dst + j * loop[1].dst;
      if (flat) {
        for (std::int64_t k = 0; k < loop[2].extent * channels; ++k) {
          to[k] = map(from[k]);
          largest = std::max(largest, magnitude_bits(to[k]));
        }
        continue;
      }
      for (std::int64_t k = 0; k < loop[2].extent; ++k, from += loop[2].src, to += loop[2].dst) {
        for (std::int64_t c = 0; c < channels; ++c) {
          to[c] = map(from[format.channels[c]]);
          largest = std::max(largest, magnitude_bits(to[c]));
        }
      }
    }
  }
  return largest;
}

/// Loops over tiles of a few rows; within a tile, the axis with the longest step in dst is the outermost loop. So whole
/// cache lines of dst are written together, even if the axis with the shortest step in dst has the longest in src.
template <class T, class Map>
bool decode_as(const Voxels& v, const VoxelFormat& format, const VoxelMap& to, float* dst, Map map) {
  constexpr std::int64_t tile = 8;
  std::uint32_t largest = 0;
  for (std::int64_t d = 0; d < v.extent[0]; d += tile) {
    for (std::int64_t h = 0; h < v.extent[1]; h += tile) {
      std::array<Loop, 3> loop{Loop{std::min(tile, v.extent[0] - d), v.stride[0], to.step[0]},
                               Loop{std::min(tile, v.extent[1] - h), v.stride[1], to.step[1]},
                               Loop{v.extent[2], v.stride[2], to.step[2]}};
      std::sort(loop.begin(), loop.end(),
                [](const Loop& a, const Loop& b) { return std::abs(a.dst) > std::abs(b.dst); });
      const T* src = static_cast<const T*>(v.src) + d * v.stride[0] + h * v.stride[1];
      float* begin = dst + to.offset + d * to.step[0] + h * to.step[1];
      largest = std::max(largest, copy_voxels(src, begin, loop, format, map));
    }
  }
  return largest < infinity_bits;
}

template <class T>
std::vector<float> make_table(Normalisation normalisation) {
  std::vector<float> t(65536);
  for (int bits = 0; bits < 65536; ++bits) {
    const T x = static_cast<T>(static_cast<std::uint16_t>(bits));
    t[bits] = normalisation == Normalisation::log1p ? log1p_of(x) : static_cast<float>(x);
  }
  return t;
}

/// log(x + 1) of every 16-bit pattern.
template <class T>
const float* log1p_table() {
  static const std::vector<float> table = make_table<T>(Normalisation::log1p);
  return table.data();
}

template <class T>
CodeFacts look_at(const T* codes, std::int64_t voxels, const VoxelFormat& format) {
  CodeFacts facts;
  const std::int64_t channels = format.stored_channels;
  if (format.normalisation == Normalisation::log1p && std::is_signed_v<T>) {
    T least = 0;
    for (std::int64_t i = 0; i < voxels * channels; ++i) least = std::min(least, codes[i]);
    facts.valid = least >= 0;  // -1 has no finite log(x + 1)
    // A channel that is not chosen may hold any values.
    if (!facts.valid && static_cast<std::int64_t>(format.channels.size()) < channels) {
      facts.valid = true;
      for (std::int64_t v = 0; v < voxels; ++v)
        for (int c : format.channels) facts.valid = facts.valid && codes[v * channels + c] >= 0;
    }
  }
  if (format.normalisation != Normalisation::mean) return facts;
  for (int c : format.channels)
    for (std::int64_t v = 0; v < voxels; ++v) facts.sum += codes[v * channels + c];
  return facts;
}

template <class T>
bool decode_counts(const Voxels& v, const VoxelFormat& format, const VoxelMap& map, float* dst) {
  if (format.normalisation != Normalisation::log1p)
    return decode_as<T>(v, format, map, dst, [](T x) { return static_cast<float>(x); });
  const float* table = log1p_table<T>();
  return decode_as<T>(v, format, map, dst, [table](T x) { return table[static_cast<std::uint16_t>(x)]; });
}

}  // namespace

float log1p_of(double stored) { return static_cast<float>(std::log1p(stored)); }

bool decode(const Voxels& v, const VoxelFormat& format, const VoxelMap& map, float* dst) {
  switch (v.type) {
    case hdf5::Type::i16:
      return decode_counts<std::int16_t>(v, format, map, dst);
    case hdf5::Type::u16:
      return decode_counts<std::uint16_t>(v, format, map, dst);
    case hdf5::Type::f32:
      if (format.normalisation != Normalisation::log1p)
        return decode_as<float>(v, format, map, dst, [](float x) { return x; });
      return decode_as<float>(v, format, map, dst, [](float x) { return std::log1p(x); });
    default:
      fail("internal error: voxels of type {} reached the decoder", hdf5::to_string(v.type));
  }
}

bool has_codes(hdf5::Type type) { return type == hdf5::Type::i16 || type == hdf5::Type::u16; }

std::vector<float> table_of_codes(hdf5::Type type, Normalisation normalisation) {
  return type == hdf5::Type::i16 ? make_table<std::int16_t>(normalisation) : make_table<std::uint16_t>(normalisation);
}

CodeFacts take_codes(const Voxels& v, const VoxelFormat& format, void* dst) {
  constexpr std::int64_t code = sizeof(std::uint16_t);
  const std::int64_t row = v.extent[2] * format.stored_channels * code;
  if (dst != v.src) {
    const auto* src = static_cast<const char*>(v.src);
    for (std::int64_t d = 0; d < v.extent[0]; ++d)
      for (std::int64_t h = 0; h < v.extent[1]; ++h)
        std::memcpy(static_cast<char*>(dst) + (d * v.extent[1] + h) * row,
                    src + (d * v.stride[0] + h * v.stride[1]) * code, static_cast<std::size_t>(row));
  }
  const std::int64_t voxels = v.extent[0] * v.extent[1] * v.extent[2];
  return v.type == hdf5::Type::i16 ? look_at(static_cast<const std::int16_t*>(dst), voxels, format)
                                   : look_at(static_cast<const std::uint16_t*>(dst), voxels, format);
}

double stored_value(const Voxels& v, std::int64_t d, std::int64_t h, std::int64_t w, int channel) {
  const std::int64_t i = d * v.stride[0] + h * v.stride[1] + w * v.stride[2] + channel;
  switch (v.type) {
    case hdf5::Type::i16:
      return static_cast<const std::int16_t*>(v.src)[i];
    case hdf5::Type::u16:
      return static_cast<const std::uint16_t*>(v.src)[i];
    default:
      return static_cast<const float*>(v.src)[i];
  }
}

}  // namespace keelson::cosmoflow::detail
