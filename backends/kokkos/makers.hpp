#pragma once

#include "engine/ops/factory.hpp"
#include "engine/ops/op_list.hpp"

namespace keelson {
class Context;
class Device;
}  // namespace keelson

namespace keelson::kokkos {

/// The maker of each op, defined in the op's file. Returns the primitive, or the reason why there is none. A
/// convolution with pooling (ConvMaxPoolForward) has only candidates and no maker (candidates.hpp). Conv's maker is
/// direct, ConvMaxPoolBackward's works by argmax, MatMul's by general tiles.
#define KEELSON_MAKER(desc) ops::Expected<ops::desc::Op> make(const ops::desc& d);
KEELSON_OPS(KEELSON_MAKER)
#undef KEELSON_MAKER

/// The makers of ops that need the device; these ops have no other maker.
ops::Expected<ops::ClassSums> make(const ops::ClassSumsDesc& d, Device& device);
ops::Expected<ops::Loss> make(const ops::LossDesc& d, Device& device);
ops::Expected<ops::PixelLoss> make(const ops::PixelLossDesc& d, Device& device);
ops::Expected<ops::SumSquares> make(const ops::SumSquaresDesc& d, Device& device);

/// The maker of an op that consists of products of any backend; this op has no other maker.
ops::Expected<ops::Orthogonalize> make(const ops::OrthogonalizeDesc& d, Context& context);

}  // namespace keelson::kokkos
