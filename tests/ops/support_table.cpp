#include "tests/ops/support_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "backends/registry.hpp"
#include "engine/base/error.hpp"

namespace keelson::testing {

const std::vector<SupportRow>& support_table() {
  constexpr auto takes = Support::takes, native = Support::native, if_fast = Support::if_fast, may = Support::may,
                 never = Support::never;
  // clang-format off
  static const std::vector<SupportRow> rows = {
      //                                                         kokkos          onednn
      // op                   when                               f32     16 bits f32      bf16     f16
      {"AddRows",            "",                                 takes,  never,  never,   never,   never},
      {"Attention",          "",                                 takes,  takes,  never,   never,   never},
      {"BatchNorm",            "strided",                            takes,   takes,   if_fast, if_fast, may},
      {"BatchNorm",            "oneDNN's own layout",                never,   never,   may,     may,     may},
      {"BatchNorm",            "with ReLU",                          takes,   takes,   never,   never,   never},
      {"BatchNormBackward",    "",                                   takes,   takes,   never,   never,   never},
      {"BatchNormStatistics",  "",                                   takes,   never,   never,   never,   never},
      {"BatchNormSums",        "",                                   takes,   takes,   never,   never,   never},
      {"BiasGradient",       "",                                 takes,  takes,  never,   never,   never},
      {"CheckGradients",     "",                                 takes,  never,  never,   never,   never},
      {"ClassSums",          "",                                 takes,  never,  never,   never,   never},
      {"Concat",             "",                                 takes,  takes,  if_fast, if_fast, may},
      {"Conv",               "weights and dst `any`, dst f32",   takes,  never,  native,  native,  may},
      {"Conv",               "layouts given, dst f32",           takes,  never,  if_fast, if_fast, may},
      {"Conv",               "dst of 16 bits",                   never,  never,  never,   never,   never},
      {"Conv",               "dilated depthwise, in training",   takes,  never,  never,   if_fast, may},
      {"Conv",               "images, volumes of few channels",  takes,  never,  if_fast, if_fast, may},
      {"ConvMaxPool",        "on a device with small caches",    takes,  never,  never,   never,   never},
      {"ConvMaxPool",        "on another device",                never,  never,  never,   never,   never},
      {"ConvMaxPool",        "on another device, weights alone", takes,  takes,  never,   never,   never},
      {"ConvMaxPoolForward", "on a device with small caches",    if_fast, never, if_fast, never,   never},
      {"ConvMaxPoolForward", "on another device",                never,  never,  never,   never,   never},
      {"DecayedSum",           "",                                   takes,   never,   never,   never,   never},
      {"DecodeVoxels",         "",                                   takes,   takes,   never,   never,   never},
      {"Dense",              "dst f32",                          takes,  never,  takes,   native,  may},
      {"Dense",              "dst of 16 bits",                   never,  never,  never,   never,   never},
      {"Dropout",            "",                                 takes,  takes,  never,   never,   never},
      {"EigenQuotient",      "",                                 takes,  never,  never,   never,   never},
      {"Eltwise",            "strided",                          takes,  takes,  if_fast, native,  may},
      {"Eltwise",            "oneDNN's own layout",              may,    may,    takes,   native,  may},
      {"Embedding",          "",                                 takes,  never,  never,   never,   never},
      {"FactorInverses",     "",                                 may,    never,  never,   never,   never},  // LAPACK
      {"FoldBatchNorm",      "",                                 takes,  never,  never,   never,   never},
      {"GraftDirection",     "",                                 takes,  never,  never,   never,   never},
      {"GroupNorm",          "rows of one group",                takes,  takes,  if_fast, if_fast, may},
      {"GroupNorm",          "other",                            takes,  takes,  never,   never,   never},
      {"InnerProduct",       "",                                 takes,  never,  never,   never,   never},
      {"InverseRoots",       "",                                 may,    never,  never,   never,   never},  // LAPACK
      {"KlClip",             "",                                 takes,  never,  never,   never,   never},
      {"LambDirection",      "",                                 takes,  never,  never,   never,   never},
      {"LambStep",           "",                                 takes,  never,  never,   never,   never},
      {"Loss",               "",                                 takes,  never,  never,   never,   never},
      {"MatMul",             "dst plain, dst f32",               takes,  never,  takes,   native,  may},
      {"MatMul",             "dst with other strides, dst f32",  takes,  never,  if_fast, if_fast, may},
      {"MatMul",             "dst of 16 bits",                   never,  never,  may,     may,     may},
      {"MuonDirection",      "",                                 takes,  never,  never,   never,   never},
      {"MuonStep",           "",                                 takes,  never,  never,   never,   never},
      {"Orthogonalize",      "",                                 takes,  never,  never,   never,   never},
      {"PackedTriangle",     "",                                 takes,  never,  never,   never,   never},
      {"Patches",            "",                                 takes,  takes,  never,   never,   never},
      {"PixelCounts",        "",                                 takes,  never,  never,   never,   never},
      {"PixelLoss",          "",                                 takes,  never,  never,   never,   never},
      {"Pool",               "average",                          takes,  takes,  takes,   native,  may},
      {"Pool",               "max, channels contiguous",         takes,  takes,  takes,   never,   never},
      {"Pool",               "max, channels not contiguous",     takes,  takes,  never,   never,   never},
      {"Pool",               "oneDNN's own layout",              never,  never,  takes,   may,     may},
      {"Product",            "",                                 takes,  takes,  never,   never,   never},
      {"RecurrentCell",      "",                                 takes,  takes,  never,   never,   never},
      {"Reorder",            "strided",                          takes,  takes,  takes,   takes,   takes},
      {"Reorder",            "between bf16 and f16",             takes,  takes,  never,   may,     may},
      {"Reorder",            "from or to f64",                   takes,  takes,  never,   never,   never},
      {"Reorder",            "oneDNN's own layout",              never,  never,  takes,   takes,   takes},
      {"Resize",             "",                                 takes,  takes,  never,   never,   never},
      {"RmsNorm",              "",                                   takes,   takes,   never,   never,   never},
      {"RunningFactors",     "",                                 takes,  never,  never,   never,   never},
      {"RunningStatistics",    "",                                   takes,   never,   never,   never,   never},
      {"SampleClasses",       "",                                 takes,  never,  never,   never,   never},
      {"SampledLogits",       "",                                 takes,  never,  never,   never,   never},
      {"ShampooStep",        "",                                 takes,  never,  never,   never,   never},
      {"Softmax",            "",                                 takes,  never,  if_fast, if_fast, may},
      {"Sum",                "strided",                          takes,  takes,  takes,   native,  may},
      {"Sum",                "oneDNN's own layout",              takes,  takes,  takes,   native,  may},
      {"Sum",                "terms with strides of their own",  takes,  takes,  never,   never,   never},
      {"SumSquares",         "",                                 takes,  never,  never,   never,   never},
      {"TransposedConv",     "weights and dst `any`, dst f32",   takes,  never,  native,  native,  may},
      {"TransposedConv",     "layouts given, dst f32",           takes,  never,  if_fast, if_fast, may},
      {"TransposedConv",     "dst of 16 bits",                   never,  never,  never,   never,   never},
      {"Update",             "",                                 takes,  never,  never,   never,   never},
  };
  // clang-format on
  return rows;
}

namespace {

constexpr std::string_view own_layout = "oneDNN's own layout";

std::string_view strided_or_own(const TensorDesc& d) { return d.layout.is_opaque() ? own_layout : "strided"; }

std::string_view caches(Device& device) {
  return device.has_small_caches() ? "on a device with small caches" : "on another device";
}

/// One element after the other, for each channel of a pixel.
bool channels_contiguous(const TensorDesc& d) {
  return !d.layout.is_strided() || d.shape[1] == 1 || d.layout.strides()[1] == 1;
}

using namespace ops;

// ---- the cell of a description

SupportCell cell(const AddRowsDesc& d, Device&) { return {"AddRows", "", d.dst.dtype}; }
SupportCell cell(const AttentionDesc& d, Device&) { return {"Attention", "", d.src.dtype}; }
SupportCell cell(const BatchNormDesc& d, Device&) {
  return {"BatchNorm", d.relu && !d.src.layout.is_opaque() ? "with ReLU" : strided_or_own(d.src), d.src.dtype};
}
SupportCell cell(const BatchNormBackwardDesc& d, Device&) { return {"BatchNormBackward", "", d.src.dtype}; }
SupportCell cell(const BatchNormStatisticsDesc&, Device&) { return {"BatchNormStatistics", "", DType::f32}; }
SupportCell cell(const BatchNormSumsDesc& d, Device&) { return {"BatchNormSums", "", d.src.dtype}; }
SupportCell cell(const BiasGradientDesc& d, Device&) { return {"BiasGradient", "", d.diff_dst.dtype}; }
SupportCell cell(const CheckGradientsDesc&, Device&) { return {"CheckGradients", "", DType::f32}; }
SupportCell cell(const ConcatDesc& d, Device&) { return {"Concat", "", d.dst.dtype}; }
template <class Desc>
SupportCell convolution_cell(std::string_view op, const Desc& d) {
  const bool chosen = d.weights.layout.is_any() && d.dst.layout.is_any();
  return {op,
          is_half(d.dst.dtype) ? "dst of 16 bits"
          : chosen             ? "weights and dst `any`, dst f32"
                               : "layouts given, dst f32",
          d.src.dtype};
}
SupportCell cell(const ConvDesc& d, Device&) {
  const auto channels = d.src.shape[1];
  const auto& dilation = d.params.dilation;
  const bool depthwise = channels > 1 && d.params.groups == channels && d.dst.shape[1] == channels;
  const bool dilated = std::any_of(dilation.begin(), dilation.end(), [](auto x) { return x > 1; });
  if (depthwise && dilated && d.training && d.dst.dtype == DType::f32)
    return {"Conv", "dilated depthwise, in training", d.src.dtype};
  if (d.dst.dtype == DType::f32 && d.src.shape.rank() >= 4 && d.src.shape[1] <= 3)
    return {"Conv", "images, volumes of few channels", d.src.dtype};
  return convolution_cell("Conv", d);
}
SupportCell cell(const TransposedConvDesc& d, Device&) { return convolution_cell("TransposedConv", d); }
SupportCell cell(const ConvMaxPoolDesc& d, Device& device) {
  const bool weights_alone = !device.has_small_caches() && !d.diff_src && !d.conv.bias && !d.dst.layout.is_any();
  return {"ConvMaxPool", weights_alone ? "on another device, weights alone" : caches(device), d.src.dtype};
}
SupportCell cell(const ConvMaxPoolForwardDesc& d, Device& device) {
  return {"ConvMaxPoolForward", caches(device), d.conv.src.dtype};
}
SupportCell cell(const DecodeVoxelsDesc& d, Device&) { return {"DecodeVoxels", "", d.dst.dtype}; }
SupportCell cell(const DenseDesc& d, Device&) {
  return {"Dense", is_half(d.dst.dtype) ? "dst of 16 bits" : "dst f32", d.src.dtype};
}
SupportCell cell(const DropoutDesc& d, Device&) { return {"Dropout", "", d.src.dtype}; }
SupportCell cell(const EltwiseDesc& d, Device&) { return {"Eltwise", strided_or_own(d.src), d.src.dtype}; }
SupportCell cell(const EmbeddingDesc& d, Device&) { return {"Embedding", "", d.weights.dtype}; }
SupportCell cell(const FoldBatchNormDesc& d, Device&) { return {"FoldBatchNorm", "", d.weights.dtype}; }
SupportCell cell(const GroupNormDesc& d, Device&) {
  return {"GroupNorm", d.groups == 1 && d.src.shape.rank() == 2 ? "rows of one group" : "other", d.src.dtype};
}
SupportCell cell(const DecayedSumDesc& d, Device&) { return {"DecayedSum", "", d.sum.dtype}; }
SupportCell cell(const GraftDirectionDesc& d, Device&) { return {"GraftDirection", "", d.param.dtype}; }
SupportCell cell(const InverseRootsDesc& d, Device&) { return {"InverseRoots", "", d.srcs.at(0).dtype}; }
SupportCell cell(const ShampooStepDesc& d, Device&) { return {"ShampooStep", "", d.param.dtype}; }
SupportCell cell(const EigenQuotientDesc&, Device&) { return {"EigenQuotient", "", DType::f32}; }
SupportCell cell(const FactorInversesDesc&, Device&) { return {"FactorInverses", "", DType::f32}; }
SupportCell cell(const InnerProductDesc& d, Device&) { return {"InnerProduct", "", d.src.dtype}; }
SupportCell cell(const KlClipDesc& d, Device&) { return {"KlClip", "", d.direction.dtype}; }
SupportCell cell(const PackedTriangleDesc&, Device&) { return {"PackedTriangle", "", DType::f32}; }
SupportCell cell(const PatchesDesc& d, Device&) { return {"Patches", "", d.src.dtype}; }
SupportCell cell(const RunningFactorsDesc&, Device&) { return {"RunningFactors", "", DType::f32}; }
SupportCell cell(const LambDirectionDesc& d, Device&) { return {"LambDirection", "", d.param.dtype}; }
SupportCell cell(const LambStepDesc& d, Device&) { return {"LambStep", "", d.param.dtype}; }
SupportCell cell(const ClassSumsDesc& d, Device&) { return {"ClassSums", "", d.prediction.dtype}; }
SupportCell cell(const LossDesc& d, Device&) { return {"Loss", "", d.prediction.dtype}; }
SupportCell cell(const MatMulDesc& d, Device&) {
  const bool rows = d.dst.layout.is_any() || d.dst.shape[1] == 1 || d.dst.layout.strides()[1] == 1;
  return {"MatMul",
          is_half(d.dst.dtype) ? "dst of 16 bits"
          : rows               ? "dst plain, dst f32"
                               : "dst with other strides, dst f32",
          d.compute != DType::f32 ? d.compute : d.src.dtype};
}
SupportCell cell(const MuonDirectionDesc& d, Device&) { return {"MuonDirection", "", d.param.dtype}; }
SupportCell cell(const MuonStepDesc& d, Device&) { return {"MuonStep", "", d.param.dtype}; }
SupportCell cell(const OrthogonalizeDesc& d, Device&) { return {"Orthogonalize", "", d.src.dtype}; }
SupportCell cell(const PoolDesc& d, Device&) {
  const auto when = d.src.layout.is_opaque() || d.dst.layout.is_opaque()       ? own_layout
                    : d.params.kind == PoolKind::average                       ? "average"
                    : channels_contiguous(d.src) && channels_contiguous(d.dst) ? "max, channels contiguous"
                                                                               : "max, channels not contiguous";
  return {"Pool", when, d.src.dtype};
}
SupportCell cell(const ProductDesc& d, Device&) { return {"Product", "", d.dst.dtype}; }
SupportCell cell(const RecurrentCellDesc& d, Device&) { return {"RecurrentCell", "", d.type}; }
SupportCell cell(const ReorderDesc& d, Device&) {
  const DType from = d.src.dtype, to = d.dst.dtype;
  const auto when = from == DType::f64 || to == DType::f64                 ? "from or to f64"
                    : is_half(from) && is_half(to) && from != to           ? "between bf16 and f16"
                    : d.src.layout.is_opaque() || d.dst.layout.is_opaque() ? own_layout
                                                                           : "strided";
  return {"Reorder", when, is_half(from) ? from : is_half(to) ? to : DType::f32};
}
SupportCell cell(const PixelCountsDesc&, Device&) { return {"PixelCounts", "", DType::f32}; }
SupportCell cell(const PixelLossDesc& d, Device&) { return {"PixelLoss", "", d.prediction.dtype}; }
SupportCell cell(const ResizeDesc& d, Device&) { return {"Resize", "", d.src.dtype}; }
SupportCell cell(const RmsNormDesc& d, Device&) { return {"RmsNorm", "", d.src.dtype}; }
SupportCell cell(const RunningStatisticsDesc&, Device&) { return {"RunningStatistics", "", DType::f32}; }
SupportCell cell(const SampleClassesDesc&, Device&) { return {"SampleClasses", "", DType::f32}; }
SupportCell cell(const SampledLogitsDesc& d, Device&) { return {"SampledLogits", "", d.logits.dtype}; }
SupportCell cell(const SoftmaxDesc& d, Device&) { return {"Softmax", "", d.src.dtype}; }
SupportCell cell(const SumDesc& d, Device&) {
  return {"Sum", d.is_alike() ? strided_or_own(d.dst) : "terms with strides of their own", d.dst.dtype};
}
SupportCell cell(const SumSquaresDesc& d, Device&) { return {"SumSquares", "", d.src.dtype}; }
SupportCell cell(const UpdateDesc& d, Device&) { return {"Update", "", d.param.dtype}; }

// ---- examples

const Shape image{2, 16, 8, 8}, matrix{8, 16};
const ConvParams three_by_three{{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, true, {}};
const PoolParams halves{PoolKind::max, {2, 2}, {2, 2}, {0, 0}, {0, 0}};

TensorDesc plain(const Shape& s, DType t) { return TensorDesc::plain(s, t); }
TensorDesc any(const Shape& s, DType t) { return {s, t, Layout::any()}; }
TensorDesc last(const Shape& s, DType t) { return {s, t, Layout::channels_last(s)}; }

/// A small description whose operands are of type `t`, as far as the op has a choice.
template <class Desc>
Desc example(DType t) {
  return {plain(matrix, t)};
}
template <>
AddRowsDesc example(DType t) {
  return {plain({4, 16}, t), plain(matrix, t), true};
}
template <>
AttentionDesc example(DType t) {
  return {plain(matrix, t), 4, 2};
}
template <>
BatchNormDesc example(DType t) {
  return {last(image, t)};
}
template <>
BatchNormBackwardDesc example(DType t) {
  return {last(image, t), 2};
}
template <>
BatchNormStatisticsDesc example(DType) {
  return {16};
}
template <>
BatchNormSumsDesc example(DType t) {
  return {last(image, t), 2};
}
template <>
BiasGradientDesc example(DType t) {
  return {last(image, t)};
}
template <>
CheckGradientsDesc example(DType) {
  return {};
}
template <>
ConcatDesc example(DType t) {
  return {{plain(matrix, t), plain(matrix, t)}, 1, plain({8, 32}, t)};
}
template <>
ConvDesc example(DType t) {
  return {three_by_three, any(image, t), any({16, 16, 3, 3}, t), any(image, DType::f32)};
}
template <>
ConvMaxPoolDesc example(DType t) {
  return {three_by_three, halves, any(image, t), any({16, 16, 3, 3}, t), any({2, 16, 4, 4}, t)};
}
template <>
ConvMaxPoolForwardDesc example(DType t) {
  const ConvDesc conv{three_by_three, last(image, t), any({16, 16, 3, 3}, t), last(image, t)};
  return {conv, halves, last({2, 16, 4, 4}, t)};
}
template <>
DecodeVoxelsDesc example(DType t) {
  const Shape volume{2, 3, 4, 4, 4};
  return {last(volume, DType::u16), last(volume, t)};
}
template <>
DenseDesc example(DType t) {
  return {{}, any(matrix, t), any({32, 16}, t), any({8, 32}, DType::f32)};
}
template <>
DropoutDesc example(DType t) {
  return {{}, plain(matrix, t)};
}
template <>
EltwiseDesc example(DType t) {
  return {{EltwiseKind::tanh, 0, 0}, plain(matrix, t)};
}
template <>
EmbeddingDesc example(DType t) {
  return {plain({8}, DType::s32), plain(matrix, t)};
}
template <>
FoldBatchNormDesc example(DType t) {
  return {plain({16, 16, 3, 3}, t)};
}
template <>
GroupNormDesc example(DType t) {
  return {last(image, t), 4};
}
template <>
DecayedSumDesc example(DType t) {
  return {plain(matrix, t), 0.9f};
}
template <>
GraftDirectionDesc example(DType t) {
  return {{}, plain(matrix, t)};
}
template <>
InverseRootsDesc example(DType t) {
  return {{plain({1, 4, 4}, t)}, {{0, 0, 4, 2}}, 1e-6f};
}
template <>
EigenQuotientDesc example(DType) {
  return {DiagonalBlocks::of(4, 0), 8, 0.01f};
}
template <>
FactorInversesDesc example(DType) {
  return {{DiagonalBlocks::of(4, 0), DiagonalBlocks::of(3, 2)}, {{0, 0}, {1, 1}}, 0.01f};
}
template <>
PackedTriangleDesc example(DType) {
  return {8};
}
template <>
PatchesDesc example(DType t) {
  const ConvParams window{{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  return {window, last(image, t), image[0]};
}
template <>
RunningFactorsDesc example(DType) {
  return {DiagonalBlocks::of(9, 0), DiagonalBlocks::of(4, 0)};
}
template <>
LambDirectionDesc example(DType t) {
  return {{}, plain(matrix, t)};
}
template <>
LossDesc example(DType t) {
  return {{}, plain(matrix, t), plain(matrix, t)};
}
template <>
MatMulDesc example(DType t) {
  return {plain(matrix, t), plain({16, 32}, t), plain({8, 32}, DType::f32)};
}
template <>
PixelCountsDesc example(DType) {
  return {plain({2, 8, 8}, DType::s32), 3};
}
template <>
PixelLossDesc example(DType t) {
  return {{}, last(image, t)};
}
template <>
PoolDesc example(DType t) {
  return {halves, last(image, t), any({2, 16, 4, 4}, t)};
}
template <>
ProductDesc example(DType t) {
  return {2, plain(matrix, t)};
}
template <>
RecurrentCellDesc example(DType t) {
  return {CellKind::lstm, 2, 3, 16, t};
}
template <>
ReorderDesc example(DType t) {
  return {plain(image, DType::f32), last(image, t)};
}
template <>
ResizeDesc example(DType t) {
  return {plain(image, t), 12, 20};
}
template <>
RunningStatisticsDesc example(DType) {
  return {16};
}
template <>
SampleClassesDesc example(DType) {
  return {plain({8}, DType::s32), 100, 16};
}
template <>
SumDesc example(DType t) {
  return SumDesc::alike(plain(matrix, t), 2);
}
template <>
TransposedConvDesc example(DType t) {
  const TransposedConvParams doubled{{3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, 1, true, {}};
  return {doubled, any(image, t), any({16, 16, 3, 3}, t), any({2, 16, 16, 16}, DType::f32)};
}
template <>
UpdateDesc example(DType t) {
  return {{}, plain(matrix, t)};
}

}  // namespace

SupportCell cell_of(std::type_index type, const void* desc, Device& device) {
  std::optional<SupportCell> found;
  for_each_type(OpList{}, [&]<class Desc>() {
    if (type == typeid(Desc)) found = cell(*static_cast<const Desc*>(desc), device);
  });
  return found.value();
}

std::vector<SupportExample> support_examples(DType t, Device& device) {
  std::vector<SupportExample> all;
  for_each_type(OpList{}, [&]<class Desc>() {
    const auto desc = example<Desc>(t);
    const auto make = [desc](Context& context, std::string* why) -> std::unique_ptr<Primitive> {
      return context.try_make(desc, why);
    };
    all.push_back({description_of(desc), make, cell(desc, device)});
  });
  return all;
}

Support support_of(const SupportCell& cell, std::string_view backend) {
  for (const auto& row : support_table()) {
    if (row.op != cell.op || row.when != cell.when) continue;
    if (backend == "kokkos") return is_half(cell.type) ? row.kokkos_half : row.kokkos_f32;
    if (backend == "onednn")
      return cell.type == DType::bf16 ? row.onednn_bf16 : cell.type == DType::f16 ? row.onednn_f16 : row.onednn_f32;
    return Support::may;
  }
  fail("tests/ops/support_table.cpp has no row '{}' with '{}'", cell.op, cell.when);
}

std::string contradiction(const SupportCell& cell, const std::vector<std::string>& backends, std::string_view taken_by,
                          const std::string& why) {
  const auto asked =
      fmt::format("{}{}{} in {}", cell.op, cell.when.empty() ? "" : ", ", cell.when, to_string(cell.type));
  for (const auto& backend : backends) {
    const auto support = support_of(cell, backend);
    const bool native = backends::computes_in(backend, cell.type);
    if (taken_by == backend) {
      if (support != Support::never) return "";
      return fmt::format("{} takes {}; the table says that it never does", backend, asked);
    }
    if (support == Support::takes || (support == Support::native && native))
      return fmt::format("{} declines {}; the table says that it takes it", backend, asked);
    // Reasons are known where all declined.
    const bool says_slow = why.find("only its reference") != why.npos || why.find("do not pay") != why.npos;
    if (taken_by.empty() && support == Support::if_fast && native && !says_slow)
      return fmt::format("{} declines {} for another reason than that its kernel is slow, which the table expects",
                         backend, asked);
  }
  return "";
}

std::string support_as_markdown() {
  const auto word = [](Support s) {
    constexpr std::string_view words[] = {"takes", "native", "if fast", "?", ""};
    return words[static_cast<int>(s)];
  };
  std::string text =
      "| op | when | kokkos f32 | kokkos bf16, f16 | onednn f32 | onednn bf16 | onednn f16 |\n"
      "|---|---|---|---|---|---|---|\n";
  // Ops that only Kokkos makes are in one line, so that the page does not change with every op.
  const auto kokkos_alone = [](const SupportRow& r) {
    constexpr auto never = Support::never;
    return r.when.empty() && r.onednn_f32 == never && r.onednn_bf16 == never && r.onednn_f16 == never;
  };
  for (const auto& r : support_table())
    if (!kokkos_alone(r))
      text += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", r.op, r.when, word(r.kokkos_f32),
                          word(r.kokkos_half), word(r.onednn_f32), word(r.onednn_bf16), word(r.onednn_f16));
  text += "| any other |  | takes | takes, if values of the op pass between layers |  |  |  |\n";
  return text;
}

}  // namespace keelson::testing
