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

class SupportOn : public ::testing::TestWithParam<std::string> {};

TEST_P(SupportOn, EveryOpIsWhatTheTableSays) {
  Context& on = context(GetParam());
  for (const auto type : {DType::f32, DType::bf16, DType::f16})
    for (const auto& example : support_examples(type, on.device())) {
      std::string why;
      const auto op = example.make(on, &why);
      EXPECT_EQ(contradiction(example.cell, backends_of(GetParam()), op ? op->backend() : "", why), "")
          << example.description << ": " << why;
    }
}

INSTANTIATE_TEST_SUITE_P(Backends, SupportOn, ::testing::ValuesIn(contexts()),
                         [](const auto& info) { return info.param; });

TEST(SupportTable, HasEveryOpAndNoOther) {
  std::set<std::string_view> listed, known;
  Device& device = context(contexts().back()).device();
  for (const auto& example : support_examples(DType::f32, device)) listed.insert(example.cell.op);
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
