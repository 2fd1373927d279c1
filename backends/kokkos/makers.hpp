#pragma once

#include "engine/ops/factory.hpp"
#include "engine/ops/op_list.hpp"

namespace keelson {
class Device;
}

namespace keelson::kokkos {

/// The maker of each op, defined in the file of the op. Returns the primitive, or the reason why there is none.
#define KEELSON_MAKER(desc) ops::Expected<ops::desc::Op> make(const ops::desc& d);
KEELSON_OPS(KEELSON_MAKER)
#undef KEELSON_MAKER

/// The makers that need the device. The factory takes such a maker where an op has one. Of these ops, only Conv
/// (direct), ConvMaxPoolBackward (by argmax) and MatMul (by general tiles) have a maker without the device, too.
ops::Expected<ops::Conv> make(const ops::ConvDesc& d, Device& device);
ops::Expected<ops::ConvMaxPoolBackward> make(const ops::ConvMaxPoolDesc& d, Device& device);
ops::Expected<ops::ConvMaxPoolForward> make(const ops::ConvMaxPoolForwardDesc& d, Device& device);
ops::Expected<ops::Loss> make(const ops::LossDesc& d, Device& device);
ops::Expected<ops::MatMul> make(const ops::MatMulDesc& d, Device& device);
ops::Expected<ops::PixelLoss> make(const ops::PixelLossDesc& d, Device& device);
ops::Expected<ops::SumSquares> make(const ops::SumSquaresDesc& d, Device& device);

}  // namespace keelson::kokkos
