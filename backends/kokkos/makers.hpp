#pragma once

#include "engine/ops/factory.hpp"

/// One maker per op; each is defined in the file of its op and returns the primitive or the reason why there is none.
namespace keelson {
class Device;
}

namespace keelson::kokkos {

ops::Made<ops::Conv> make_conv(const ops::ConvDesc& d);
ops::Made<ops::Dense> make_dense(const ops::DenseDesc& d);
ops::Made<ops::Pool> make_pool(const ops::PoolDesc& d);
ops::Made<ops::PooledConvBackward> make_pooled_conv(const ops::PooledConvDesc& d);
ops::Made<ops::Eltwise> make_eltwise(const ops::EltwiseDesc& d);
ops::Made<ops::Dropout> make_dropout(const ops::DropoutDesc& d);
ops::Made<ops::Reorder> make_reorder(const ops::ReorderDesc& d);
ops::Made<ops::Sum> make_sum(const ops::SumDesc& d);
ops::Made<ops::Concat> make_concat(const ops::ConcatDesc& d);
ops::Made<ops::Softmax> make_softmax(const ops::SoftmaxDesc& d);
ops::Made<ops::Embedding> make_embedding(const ops::EmbeddingDesc& d);
ops::Made<ops::AddRows> make_add_rows(const ops::AddRowsDesc& d);
ops::Made<ops::MatMul> make_matmul(const ops::MatMulDesc& d);
ops::Made<ops::RecurrentCell> make_recurrent_cell(const ops::RecurrentCellDesc& d);
ops::Made<ops::Loss> make_loss(const ops::LossDesc& d, Device& device);
ops::Made<ops::SumSquares> make_sum_squares(const ops::SumSquaresDesc& d, Device& device);
ops::Made<ops::CheckGradients> make_check_gradients(const ops::CheckGradientsDesc& d);
ops::Made<ops::Update> make_update(const ops::UpdateDesc& d);

}  // namespace keelson::kokkos
