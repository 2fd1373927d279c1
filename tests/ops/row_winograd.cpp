#include "backends/kokkos/winograd/row_winograd.hpp"

#include "backends/kokkos/makers.hpp"
#include "tests/ops/conv_runs.hpp"
#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

using ops::Verb;

std::vector<ImageConvCase> row_winograd_cases() {
  const Shape none{0, 0};
  const ops::EltwiseParams relu{ops::EltwiseKind::relu}, leaky{ops::EltwiseKind::leaky_relu, 0.3f};
  return {
      {"first", "MINERvA's first layer", {2, 1, 30, 18}, 12, {8, 3}, none, none, relu},
      {"first_of_views", "the same with 5 taps along a row", {3, 1, 20, 17}, 12, {8, 5}, none, none, relu},
      {"second", "12 to 20 channels", {2, 12, 15, 14}, 20, {7, 3}, none, none, relu},
      {"third", "20 to 28 channels", {2, 20, 13, 10}, 28, {6, 3}, none, none, relu},
      {"fourth", "28 to 36 channels, many blocks of rows", {3, 28, 70, 9}, 36, {6, 3}, none, none, relu},
      {"padded", "unequal padding", {2, 9, 7, 8}, 11, {2, 5}, {1, 4}, {0, 2}, leaky},
      {"fours", "4 taps along a row, no bias", {1, 17, 9, 11}, 5, {1, 4}, {0, 1}, {0, 3}, {}, false},
      {"square", "a square kernel, channels that do not fill vectors", {2, 6, 9, 10}, 13, {3, 3}, {1, 1}, {1, 1}},
      {"tiny", "images smaller than a tile", {24, 3, 3, 3}, 2, {3, 3}, none, none},
  };
}

class RowWinogradTest : public CaseTest<ImageConvCase> {
 protected:
  std::unique_ptr<ops::Conv> make(const ops::ConvDesc& d, Verb v) {
    auto made = kokkos::make_row_winograd_conv(d, v);
    EXPECT_TRUE(made.primitive) << made.unsupported_reason;
    return std::move(made.primitive);
  }
};

TEST_P(RowWinogradTest, EqualsTheDefinition) {
  if (!ctx().device().has_small_caches()) GTEST_SKIP() << "for CPUs";
  const ConvOperands o(c().src, c().weights(), c().dst(), c().bias);
  for (const auto& layout : {Layout::channels_last(c().weights()), Layout::plain(c().weights())}) {
    const auto d = c().desc(layout);
    const auto direct = kokkos::make(d);
    ASSERT_TRUE(direct.primitive) << direct.unsupported_reason;
    for (const Verb v : {Verb::forward, Verb::backward_data, Verb::backward_weights}) {
      SCOPED_TRACE(to_string(v));
      const auto op = make(d, v);
      ASSERT_TRUE(op);
      const Array want = conv_result(c().params(), v, o);
      const ConvErrors of_direct = errors_of(run_conv(ctx(), *direct.primitive, v, o), want);
      expect_errors(*op, v, run_conv(ctx(), *op, v, o), want, of_direct);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(RowWinograd, RowWinogradTest, ::testing::ValuesIn([] {
                           std::vector<OnContext<ImageConvCase>> all;
                           for (const auto& c : row_winograd_cases()) all.push_back({c, "kokkos"});
                           return all;
                         }()),
                         CaseName());

TEST(RowWinograd, SaysWhatItDoesNotTake) {
  if (!context("kokkos").device().has_small_caches()) GTEST_SKIP() << "for CPUs";
  const Shape src{1, 8, 12, 12}, none{0, 0};
  const auto reason = [&](const ImageConvCase& c, bool exact = false) {
    auto d = c.desc(Layout::channels_last(c.weights()));
    d.exact = exact;
    return kokkos::make_row_winograd_conv(d, Verb::forward).unsupported_reason;
  };
  const ImageConvCase fit{"", "", src, 12, {8, 3}, none, none};
  auto wide = fit, square = fit;
  wide.kernel = {3, 7};
  square.kernel = {3, 3}, square.filters = 32;
  EXPECT_EQ(reason(fit), "");
  EXPECT_NE(reason(fit, true).find("exact"), std::string::npos);
  EXPECT_NE(reason(wide).find("the kernel is"), std::string::npos);
  EXPECT_NE(reason(square).find("in two dims"), std::string::npos) << reason(square);
}

}  // namespace
}  // namespace keelson::testing
