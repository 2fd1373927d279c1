#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "backends/registry.hpp"
#include "tests/ops/op_test.hpp"

/// The support table (tests/ops/support_table.cpp) itself: every op is in it, backends do what it says for one small
/// description of every op in every dtype, and the documentation shows it.
namespace keelson::testing {
namespace {

namespace example_descs {

using namespace ops;

const Shape image{2, 16, 8, 8}, matrix{8, 16};
const ConvParams window{{3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, true, {}};
const PoolParams halves{PoolKind::max, {2, 2}, {2, 2}, {0, 0}, {0, 0}};

TensorDesc plain(const Shape& s, DType t) { return TensorDesc::plain(s, t); }
TensorDesc any(const Shape& s, DType t) { return {s, t, Layout::any()}; }
TensorDesc last(const Shape& s, DType t) { return {s, t, Layout::channels_last(s)}; }

/// A small description whose operands are of type `t`, as far as the op has a choice.
template <class Desc>
Desc example(DType t);
template <>
AddRowsDesc example(DType t) {
  return {plain({4, 16}, t), plain(matrix, t), true};
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
CheckGradientsDesc example(DType) {
  return {};
}
template <>
ConcatDesc example(DType t) {
  return {{plain(matrix, t), plain(matrix, t)}, 1, plain({8, 32}, t)};
}
template <>
ConvDesc example(DType t) {
  return {window, any(image, t), any({16, 16, 3, 3}, t), any(image, DType::f32)};
}
template <>
ConvMaxPoolDesc example(DType t) {
  return {window, halves, any(image, t), any({16, 16, 3, 3}, t), any({2, 16, 4, 4}, t)};
}
template <>
ConvMaxPoolForwardDesc example(DType t) {
  const ConvDesc conv{window, last(image, t), any({16, 16, 3, 3}, t), last(image, t)};
  return {conv, halves, last({2, 16, 4, 4}, t)};
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
LambDirectionDesc example(DType t) {
  return {{}, plain(matrix, t)};
}
template <>
LambStepDesc example(DType t) {
  return {plain(matrix, t)};
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
PoolDesc example(DType t) {
  return {halves, last(image, t), any({2, 16, 4, 4}, t)};
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
RunningStatisticsDesc example(DType) {
  return {16};
}
template <>
SoftmaxDesc example(DType t) {
  return {plain(matrix, t)};
}
template <>
SumDesc example(DType t) {
  return {plain(matrix, t), 2};
}
template <>
SumSquaresDesc example(DType t) {
  return {plain(matrix, t)};
}
template <>
UpdateDesc example(DType t) {
  return {{}, plain(matrix, t)};
}

}  // namespace example_descs

using example_descs::example;

class SupportOn : public ::testing::TestWithParam<std::string> {};

TEST_P(SupportOn, EveryOpIsWhatTheTableSays) {
  Context& on = context(GetParam());
  for (const auto type : {DType::f32, DType::bf16, DType::f16})
    ops::for_each_type(ops::OpList{}, [&]<class Desc>() {
      const auto desc = example<Desc>(type);
      std::string why;
      const auto op = on.try_make(desc, &why);
      EXPECT_EQ(contradiction(cell_of(desc, on.device()), backends_of(GetParam()), op ? op->backend() : "", why), "")
          << ops::description_of(desc) << ": " << why;
    });
}

INSTANTIATE_TEST_SUITE_P(Backends, SupportOn, ::testing::ValuesIn(contexts()),
                         [](const auto& info) { return info.param; });

TEST(SupportTable, HasEveryOpAndNoOther) {
  std::set<std::string_view> listed, known;
  Device& device = context(contexts().back()).device();
  ops::for_each_type(ops::OpList{},
                     [&]<class Desc>() { listed.insert(cell_of(example<Desc>(DType::f32), device).op); });
  for (const auto& row : support_table()) known.insert(row.op);
  EXPECT_EQ(listed, known);
}

TEST(SupportTable, CallsADeclineThatNobodyExpectsWrong) {
  const SupportCell conv{"Conv", "weights and dst `any`, dst f32", DType::f32};
  EXPECT_EQ(contradiction(conv, {"kokkos"}, "kokkos", ""), "");
  EXPECT_NE(contradiction(conv, {"kokkos"}, "", "kokkos: a reason"), "");
  EXPECT_EQ(contradiction({"Dropout", "", DType::f32}, {"kokkos"}, "kokkos", ""), "");
  // 16-bit convolutions: Kokkos has none, and must not be said to have them.
  EXPECT_EQ(contradiction({"Conv", "dst of 16 bits", DType::bf16}, {"kokkos"}, "", "kokkos: a reason"), "");
  EXPECT_NE(contradiction({"Conv", "dst of 16 bits", DType::bf16}, {"kokkos"}, "kokkos", ""), "");
  EXPECT_THROW(contradiction({"Conv", "no such row", DType::f32}, {"kokkos"}, "", ""), Error);
}

TEST(SupportTable, AnEarlierBackendMustTakeWhatItCan) {
  const auto order = backends_of(contexts().back());
  if (order.size() < 2 || order[0] != "onednn") GTEST_SKIP() << "one backend alone, or oneDNN is not the first";
  const SupportCell dense{"Dense", "dst f32", DType::f32}, softmax{"Softmax", "", DType::f32};
  EXPECT_EQ(contradiction(dense, order, "onednn", ""), "");
  EXPECT_NE(contradiction(dense, order, "kokkos", ""), "");
  EXPECT_EQ(contradiction(softmax, order, "kokkos", ""), "") << "oneDNN takes softmax only where it is fast";
  if (!backends::computes_in("onednn", DType::f32)) GTEST_SKIP() << "oneDNN has no fast f32 on this processor";
  EXPECT_NE(contradiction(softmax, {"onednn"}, "", "onednn: it is broken"), "");
  EXPECT_EQ(contradiction(softmax, {"onednn"}, "", "onednn: oneDNN has only its reference forward"), "");
}

TEST(SupportTable, DocumentShowsIt) {
  const std::filesystem::path document = std::filesystem::path(KEELSON_SOURCE_DIR) / "docs/backends.md";
  std::ifstream file(document);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("\n" + support_as_markdown() + "\n"), text.npos)
      << document << " has another table than tests/ops/support_table.cpp, which is:\n"
      << support_as_markdown();
}

}  // namespace
}  // namespace keelson::testing
