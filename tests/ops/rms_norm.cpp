#include "engine/ops/rms_norm.hpp"

#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

Array forward(const Array& src, const Array& scale) {
  Array dst(src.shape);
  const auto features = src.shape[1];
  for (std::int64_t n = 0; n < src.shape[0]; ++n) {
    double squares = 0;
    for (std::int64_t f = 0; f < features; ++f) squares += src[n * features + f] * src[n * features + f];
    const double r = 1 / std::sqrt(squares / static_cast<double>(features) + 1e-5);
    for (std::int64_t f = 0; f < features; ++f) dst[n * features + f] = src[n * features + f] * r * scale[f];
  }
  return dst;
}

struct RmsNormCase {
  std::string name, about;
  Shape src;
  DType type = DType::f32;
};
class RmsNormTest : public CaseTest<RmsNormCase> {};

TEST_P(RmsNormTest, MatchesOracleBothWays) {
  const auto plain = Layout::plain(c().src);
  const Shape features{c().src[1]};
  const auto op = make(ops::RmsNormDesc{{c().src, c().type, plain}});
  if (!op) return;
  const Array x = rounded(oracle::random_uniform(c().src, "x", -3, 3), c().type);
  const Array dy = rounded(oracle::random_uniform(c().src, "dy"), c().type);
  const Array w = oracle::random_uniform(features, "w", 0.5, 2);
  const Tensor src = put(ctx(), x, plain, c().type), scale = put(ctx(), w, Layout::plain(features)),
               diff_dst = put(ctx(), dy, plain, c().type), dst = destination(ctx(), c().src, plain, c().type),
               diff_src = destination(ctx(), c().src, plain, c().type),
               diff_scale = destination(ctx(), features, Layout::plain(features));
  run_forward(c().name, *op, {src, scale, dst});
  check(dst, forward(x, w), c().name);
  // A NaN stays in its row.
  Array broken = x;
  broken[0] = nan;
  op->forward({put(ctx(), broken, plain, c().type), scale, diff_src});
  const Array got = get(ctx(), diff_src);
  for (std::int64_t i = 0; i < got.elements(); ++i) EXPECT_EQ(std::isnan(got[i]), i < features[0]) << i;
  run_backward_data(c().name, *op, {diff_dst, src, scale, diff_src});
  check(diff_src, oracle::differences([&](auto& v) { return oracle::dot(forward(v, w), dy); }, x),
        c().name + " diff_src");
  run_backward_weights(c().name, *op,
                       {diff_dst, src, diff_scale, scratch(ctx(), op->scratch_bytes(ops::Verb::backward_weights))});
  check(diff_scale, oracle::differences([&](auto& v) { return oracle::dot(forward(x, v), dy); }, w),
        c().name + " diff_scale");
}

INSTANTIATE_TEST_SUITE_P(Cases, RmsNormTest,
                         ::testing::ValuesIn(on_every_context<RmsNormCase>({{"small", "", {3, 5}},
                                                                            {"one", "a single row", {1, 17}},
                                                                            {"rows", "more rows than sums", {130, 3}},
                                                                            {"bf16", "", {4, 33}, DType::bf16},
                                                                            {"f16", "", {4, 33}, DType::f16}})),
                         CaseName{});

}  // namespace
}  // namespace keelson::testing
