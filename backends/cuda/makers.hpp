#pragma once

#include "backends/cuda/library.hpp"
#include "engine/ops/op_list.hpp"

/// One maker per op, defined in the op's file. A maker returns the primitive or the reason why there is none.
namespace keelson::cuda {

ops::Expected<ops::Conv> make_conv(const LibraryPtr& library, const ops::ConvDesc& d);
/// `by_library`, or for a depthwise convolution a primitive that takes the faster of `by_library` and Keelson's own
/// kernels.
std::unique_ptr<ops::Conv> with_depthwise_kernels(const LibraryPtr& library, const ops::ConvDesc& d,
                                                  std::unique_ptr<ops::Conv> by_library);
/// The gradient of a first layer's weights by the faster of two algorithms.
ops::Expected<ops::ConvMaxPoolBackward> make_conv_max_pool(const LibraryPtr& library, const ops::ConvMaxPoolDesc& d);
/// By make_conv() with exchanged roles of the operands.
ops::Expected<ops::TransposedConv> make_transposed_conv(const LibraryPtr& library, const ops::TransposedConvDesc& d);
ops::Expected<ops::Dense> make_dense(const LibraryPtr& library, const ops::DenseDesc& d);
ops::Expected<ops::MatMul> make_matmul(const LibraryPtr& library, const ops::MatMulDesc& d);
/// By cuSOLVER.
ops::Expected<ops::InverseRoots> make_inverse_roots(const LibraryPtr& library, const ops::InverseRootsDesc& d);
/// By cuSOLVER.
ops::Expected<ops::FactorInverses> make_factor_inverses(const LibraryPtr& library, const ops::FactorInversesDesc& d);
/// Between padded channels and dense channels-last values.
ops::Expected<ops::Reorder> make_padding_reorder(const ops::ReorderDesc& d);
/// To padded channels.
ops::Expected<ops::DecodeVoxels> make_padding_decode(const ops::DecodeVoxelsDesc& d);

}  // namespace keelson::cuda
