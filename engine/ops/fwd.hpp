#pragma once

/// Forward declarations of all ops and their descriptions.
namespace keelson::ops {

template <class Op>
struct Expected;

class AddRows;
class BatchNorm;
class BatchNormBackward;
class BatchNormStatistics;
class BatchNormSums;
class BiasGradient;
class CheckGradients;
class Concat;
class Conv;
class ConvMaxPoolBackward;
class ConvMaxPoolForward;
class DecodeVoxels;
class Dense;
class Dropout;
class Eltwise;
class Embedding;
class FoldBatchNorm;
class LambDirection;
class LambStep;
class Loss;
class MatMul;
class PixelLoss;
class Pool;
class RecurrentCell;
class Reorder;
class Resize;
class RmsNorm;
class RunningStatistics;
class Softmax;
class Sum;
class SumSquares;
class TransposedConv;
class Update;

struct AddRowsDesc;
struct BatchNormBackwardDesc;
struct BatchNormDesc;
struct BatchNormStatisticsDesc;
struct BatchNormSumsDesc;
struct BiasGradientDesc;
struct CheckGradientsDesc;
struct ConcatDesc;
struct ConvDesc;
struct ConvMaxPoolDesc;
struct ConvMaxPoolForwardDesc;
struct DecodeVoxelsDesc;
struct DenseDesc;
struct DropoutDesc;
struct EltwiseDesc;
struct EmbeddingDesc;
struct FoldBatchNormDesc;
struct LambDirectionDesc;
struct LambStepDesc;
struct LossDesc;
struct MatMulDesc;
struct PixelLossDesc;
struct PoolDesc;
struct RecurrentCellDesc;
struct ReorderDesc;
struct ResizeDesc;
struct RmsNormDesc;
struct RunningStatisticsDesc;
struct SoftmaxDesc;
struct SumDesc;
struct SumSquaresDesc;
struct TransposedConvDesc;
struct UpdateDesc;

}  // namespace keelson::ops
