#pragma once

#include <fmt/format.h>

#include "engine/ops/operands.hpp"

namespace keelson::ops {

/// How to decode one sample. The voxel (d, h, w) of dst is voxel number origin + d step[0] + h step[1] + w step[2] of
/// src; rotations and flips of a volume are such maps.
struct VoxelSample {
  std::int32_t origin = 0;    ///< voxel number
  std::int32_t step[3] = {};  ///< in voxels, for D, H, W
  float divisor = 1;          ///< divides all values
  std::int32_t present = 0;   ///< 0: a short batch has no sample at this position; its values are 0
};

class DecodeVoxels;
/// Decodes the 16-bit codes of files: dst(n, c, d, h, w) = table[src code] / divisor, for the chosen channels. src (N,
/// stored channels, D, H, W) u16, channels-last. dst (N, C, D, H, W) f32, bf16 or f16, strided; `any` becomes
/// channels-last. With a table instead of a formula, the values have the same bits on every device as on the host.
struct DecodeVoxelsDesc {
  using Op = DecodeVoxels;
  TensorDesc src, dst;

  TensorDesc table_desc() const { return TensorDesc::plain({65536}); }
  TensorDesc channels_desc() const { return TensorDesc::plain({dst.shape[1]}, DType::s32); }
  TensorDesc samples_desc() const {
    return TensorDesc::plain({dst.shape[0] * static_cast<std::int64_t>(sizeof(VoxelSample))}, DType::u8);
  }
};
class DecodeVoxels : public DescribedPrimitive<DecodeVoxelsDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::src, &DecodeVoxelsDesc::src> src;
    In<K, Role::table, &DecodeVoxelsDesc::table_desc> table;           ///< value of each code
    In<K, Role::channels, &DecodeVoxelsDesc::channels_desc> channels;  ///< stored channel of each channel of dst
    In<K, Role::samples, &DecodeVoxelsDesc::samples_desc> samples;     ///< one VoxelSample per sample
    Out<K, Role::dst, &DecodeVoxelsDesc::dst> dst;
  };
  virtual void forward(const Forward<Tensors>& args) = 0;
};

/// One line for logs and errors.
inline std::string describe(const DecodeVoxelsDesc& d) {
  return fmt::format("decode voxels {} -> {}", to_string(d.src), to_string(d.dst));
}

}  // namespace keelson::ops
