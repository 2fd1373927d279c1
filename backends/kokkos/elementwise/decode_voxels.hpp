#pragma once

#include <cstdint>

#include "engine/ops/decode_voxels.hpp"

/// The kernel of ops::DecodeVoxels, also for backends with their own layout of dst. Including this needs no Kokkos.
namespace keelson::kokkos {

/// The sources of the op, and the extents of dst.
struct VoxelCodes {
  const std::uint16_t* codes = nullptr;  ///< (N, D, H, W, stored_channels)
  const float* table = nullptr;
  const std::int32_t* channels = nullptr;
  const ops::VoxelSample* samples = nullptr;
  std::int64_t stored_channels = 1, channel_count = 1, batch = 1;
  std::int64_t extent[3] = {1, 1, 1};
};

/// The op's operands in the form of the kernel.
VoxelCodes voxel_codes(const ops::DecodeVoxels::Forward<ops::Tensors>& args);

/// The layout of dst: strides in elements.
struct VoxelStrides {
  std::int64_t n = 0, c = 1;
  std::int64_t spatial[3] = {};
  std::int64_t channels = 1;  ///< channels to write; those from VoxelCodes::channel_count on are zero

  explicit VoxelStrides(const TensorDesc& dst);  ///< for a strided layout
  /// for the layout (N, D, H, W, channels)
  VoxelStrides(const VoxelCodes& from, std::int64_t channels);
};

/// Writes dst.
void decode_voxels(const VoxelCodes& from, void* dst, DType type, const VoxelStrides& strides);

/// "" if the kernel can process these operands, apart from the layout of dst, else the reason why not.
std::string unfit_for_voxels(const ops::DecodeVoxelsDesc& d);

}  // namespace keelson::kokkos
