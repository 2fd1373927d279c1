#pragma once

#include <cstdint>
#include <vector>

#include "engine/data/field_encoding.hpp"
#include "engine/ops/decode_voxels.hpp"

namespace keelson {

/// A volume of 16-bit codes, whose values are in a table (ops::DecodeVoxels). The encoded form of a sample has the
/// codes (D, H, W, stored channels); its parameters are an ops::VoxelSample.
class CodedVoxels final : public FieldEncoding {
 public:
  /// What the codes are.
  struct Codes {
    std::int64_t stored_channels = 1;    ///< codes per voxel, which are contiguous
    std::vector<std::int32_t> channels;  ///< the stored channel of each channel of the field
    std::vector<float> table;            ///< (65536) value of each code
  };
  /// `field`: index into Dataset::fields(). `shape`: of that field, logical (C, D, H, W).
  CodedVoxels(std::size_t field, const Shape& shape, Codes codes);

  const Codes& codes() const { return codes_; }  ///< as given to the constructor
  std::unique_ptr<FieldDecoder> make_decoder(Context& context, const TensorDesc& dst) const override;

 private:
  Codes codes_;
};

}  // namespace keelson
