#pragma once

#include <string>

#include "engine/ops/factory.hpp"

/// One line about an op for logs and errors: its name, parameters, shapes and layouts.
namespace keelson::ops {

std::string describe(const ConvDesc& d);
std::string describe(const DenseDesc& d);
std::string describe(const PoolDesc& d);
std::string describe(const ConvMaxPoolDesc& d);
std::string describe(const EltwiseDesc& d);
std::string describe(const DropoutDesc& d);
std::string describe(const ReorderDesc& d);
std::string describe(const SumDesc& d);
std::string describe(const ConcatDesc& d);
std::string describe(const SoftmaxDesc& d);
std::string describe(const EmbeddingDesc& d);
std::string describe(const AddRowsDesc& d);
std::string describe(const MatMulDesc& d);
std::string describe(const RecurrentCellDesc& d);
std::string describe(const LossDesc& d);
std::string describe(const SumSquaresDesc& d);
std::string describe(const CheckGradientsDesc& d);
std::string describe(const UpdateDesc& d);

}  // namespace keelson::ops
