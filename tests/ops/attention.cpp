#include "engine/ops/attention.hpp"

#include <cmath>

#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

struct AttentionCase {
  std::string name, about;
  std::int64_t samples, steps, heads, width;
  bool causal = false;
  DType type = DType::f32;
};

struct Attended {
  Array dst, saved;
};

Attended attend(const AttentionCase& c, const Array& q, const Array& k, const Array& v) {
  const std::int64_t features = c.heads * c.width;
  Attended r{Array(q.shape), Array(Shape{q.shape[0], c.heads})};
  const double scale = 1 / std::sqrt(static_cast<double>(c.width));
  for (std::int64_t n = 0; n < c.samples; ++n)
    for (std::int64_t h = 0; h < c.heads; ++h)
      for (std::int64_t i = 0; i < c.steps; ++i) {
        const std::int64_t end = c.causal ? i + 1 : c.steps, row = n * c.steps + i;
        std::vector<double> weight(static_cast<std::size_t>(end));
        double largest = -inf, sum = 0;
        for (std::int64_t j = 0; j < end; ++j) {
          double dot = 0;
          for (std::int64_t d = h * c.width; d < (h + 1) * c.width; ++d)
            dot += q[row * features + d] * k[(n * c.steps + j) * features + d];
          weight[static_cast<std::size_t>(j)] = scale * dot;
          largest = std::max(largest, scale * dot);
        }
        for (double& w : weight) sum += w = std::exp(w - largest);
        for (std::int64_t j = 0; j < end; ++j)
          for (std::int64_t d = h * c.width; d < (h + 1) * c.width; ++d)
            r.dst[row * features + d] +=
                weight[static_cast<std::size_t>(j)] / sum * v[(n * c.steps + j) * features + d];
        r.saved[row * c.heads + h] = largest + std::log(sum);
      }
  return r;
}

class AttentionTest : public CaseTest<AttentionCase> {
 protected:
  Shape shape() const { return {c().samples * c().steps, c().heads * c().width}; }
  Array values(const char* name, double most) const {
    return rounded(oracle::random_uniform(shape(), name, -most, most), c().type);
  }
  Tensor tensor(const Array& a) { return put(ctx(), a, Layout::plain(a.shape), c().type); }
  Tensor result() { return destination(ctx(), shape(), Layout::plain(shape()), c().type); }
};

TEST_P(AttentionTest, MatchesOracleBothWays) {
  const Array q = values("q", 3), k = values("k", 3), v = values("v", 1), dy = values("dy", 1);
  const auto op = make(ops::AttentionDesc{TensorDesc::plain(shape(), c().type), c().steps, c().heads, c().causal});
  if (!op) return;
  const std::vector<Tensor> srcs{tensor(q), tensor(k), tensor(v)};
  const Shape lines{shape()[0], c().heads};
  const Tensor dst = result(), saved = destination(ctx(), lines, Layout::plain(lines)), diff_dst = tensor(dy);
  run_forward(c().name, *op, {srcs, dst, saved});
  const Attended want = attend(c(), q, k, v);
  check(dst, want.dst, c().name);
  check(saved, want.saved, c().name + " saved");

  const std::vector<Tensor> diff_srcs{result(), result(), result()};
  run_backward_data(
      c().name, *op,
      {diff_dst, srcs, dst, saved, diff_srcs, scratch(ctx(), op->scratch_bytes(ops::Verb::backward_data))});
  if (shape().elements() > 1500) return;  // differences would take long
  // Sums of products whose terms nearly cancel, of values that were rounded to the type.
  Tolerance t = tolerance(c().type);
  t.norm *= 4;
  const auto loss = [&](const Array& a, const Array& b, const Array& d) {
    return oracle::dot(attend(c(), a, b, d).dst, dy);
  };
  check(diff_srcs[0], oracle::differences([&](auto& a) { return loss(a, k, v); }, q), c().name + " diff_queries", t);
  check(diff_srcs[1], oracle::differences([&](auto& a) { return loss(q, a, v); }, k), c().name + " diff_keys", t);
  check(diff_srcs[2], oracle::differences([&](auto& a) { return loss(q, k, a); }, v), c().name + " diff_values", t);
}

TEST_P(AttentionTest, SurvivesLargeScoresAndShowsNan) {
  Array q = values("q", 300), v = values("v", 1);
  const Array k = values("k", 300);
  const auto op = make(ops::AttentionDesc{TensorDesc::plain(shape(), c().type), c().steps, c().heads, c().causal});
  if (!op) return;
  const Shape lines{shape()[0], c().heads};
  const Tensor dst = result(), saved = destination(ctx(), lines, Layout::plain(lines));
  op->forward({{tensor(q), tensor(k), tensor(v)}, dst, saved});
  EXPECT_TRUE(all_finite(get(ctx(), dst))) << "scores beyond the range of exp";
  q[0] = nan;  // the first head of the first query
  op->forward({{tensor(q), tensor(k), tensor(v)}, dst, saved});
  const Array got = get(ctx(), dst);
  for (std::int64_t i = 0; i < got.elements(); ++i) EXPECT_EQ(std::isnan(got[i]), i < c().width) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Cases, AttentionTest,
    ::testing::ValuesIn(on_every_context<AttentionCase>({{"one_step", "", 2, 1, 2, 3},
                                                         {"small", "", 2, 5, 2, 3},
                                                         {"causal", "", 2, 6, 2, 4, true},
                                                         {"tiles", "several tiles both ways", 1, 37, 1, 5},
                                                         {"causal_tiles", "", 1, 70, 1, 4, true},
                                                         {"wide", "several vectors", 1, 18, 1, 40},
                                                         {"long", "many tiles", 1, 300, 2, 20, true},
                                                         {"widest", "", 1, 3, 1, 256},
                                                         {"heads", "a head's gradients together", 4, 9, 8, 5},
                                                         {"long_heads", "", 4, 70, 8, 20},
                                                         {"causal_heads", "", 4, 70, 8, 3, true},
                                                         {"bf16_heads", "", 16, 5, 2, 8, true, DType::bf16},
                                                         {"bf16", "", 1, 9, 2, 8, true, DType::bf16},
                                                         {"f16", "", 1, 9, 2, 8, false, DType::f16}})),
    CaseName{});

TEST(AttentionOp, DeclinesHeadsThatAreTooWide) {
  std::string why;
  EXPECT_EQ(context("kokkos").try_make(ops::AttentionDesc{TensorDesc::plain({4, 257}), 2, 1}, &why), nullptr);
  EXPECT_NE(why.find("use more heads"), std::string::npos) << why;
}

}  // namespace
}  // namespace keelson::testing
