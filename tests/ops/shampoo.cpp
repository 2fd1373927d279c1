#include "engine/ops/shampoo.hpp"

#include <cmath>
#include <limits>

#include "tests/ops/op_test.hpp"
#include "tests/oracle/shampoo.hpp"

/// The ops of Shampoo, each against its formula. Whole steps: tests/plan/shampoo.cpp.
namespace keelson::testing {
namespace {

using ops::Graft;

struct RootCase {
  std::string name, about;
  std::int64_t size;
  int root = 4;
  double condition = 100;  ///< largest eigenvalue by smallest; 0: singular, of rank 1
  float epsilon = 1e-6f, decay = 1;
  double scale = 1;
};

std::vector<RootCase> root_cases() {
  return {{"one", "a number", 1},
          {"two", "a small matrix", 2},
          {"vector", "the root of a vector's factor", 17, 2},
          {"order_three", "of three dimensions", 17, 6},
          {"large", "more than a block of LAPACK", 200},
          {"bad", "eigenvalues over six decades", 17, 4, 1e6, 1e-12f},
          {"singular", "rank 1: rounded eigenvalues are negative", 17, 4, 0, 1e-4f},
          {"small_numbers", "of gradients near 1e-6", 17, 4, 100, 1e-18f, 1, 1e-12},
          {"mean", "corrected for the start at zero", 17, 4, 100, 1e-6f, 0.99f}};
}

class InverseRootsTest : public CaseTest<RootCase> {
 protected:
  /// Symmetric, with eigenvalues from 1 to 1 / condition; each value exact in f32.
  Array matrix(std::string_view name) const {
    const std::int64_t n = c().size;
    const Array q = oracle::random_uniform({n, n}, name);
    Array a({n, n});
    const std::int64_t terms = c().condition == 0 ? 1 : n;
    for (std::int64_t k = 0; k < terms; ++k) {
      const double weight =
          n == 1 || terms == 1 ? 1 : std::pow(c().condition, -static_cast<double>(k) / static_cast<double>(n - 1));
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < n; ++j) a[i * n + j] += weight * q[k * n + i] * q[k * n + j];
    }
    for (double& v : a.data) v = static_cast<float>(c().scale * v);
    return a;
  }
};

TEST_P(InverseRootsTest, MatchJacobisMethod) {
  const std::int64_t n = c().size, room = n + 3;
  // Two stacks: a matrix with a gap behind its rows and one that is left to others; a matrix of its own.
  const ops::InverseRootsDesc d{{TensorDesc::plain({2, room, room}), TensorDesc::plain({1, n, n})},
                                {{0, 1, n, c().root}, {1, 0, n, c().root}},
                                c().epsilon,
                                c().decay};
  const auto op = make(d);
  if (!op) return;
  const Array a = matrix("a"), b = matrix("b");
  Array stack({2, room, room}, 7);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      stack[(room + i) * room + j] = j <= i ? a[i * n + j] : 1e9;  // the upper triangle is not read
  const auto srcs = std::vector{put(ctx(), stack, Layout::plain(stack.shape)),
                                put(ctx(), oracle::reshape(b, {1, n, n}), Layout::plain({1, n, n}))};
  const auto dsts = std::vector{put(ctx(), Array(stack.shape, 5), Layout::plain(stack.shape)),
                                put(ctx(), Array({1, n, n}, 5), Layout::plain({1, n, n}))};
  const std::uint64_t step = 9;
  const auto bytes = static_cast<std::int64_t>(op->scratch_bytes(ops::Verb::forward));
  run_forward(c().name, *op,
              {put_step_params(ctx(), {.step = step}), srcs, dsts,
               ctx().allocate(TensorDesc::plain({bytes}, DType::u8), "scratch")});
  const double correction = c().decay < 1 ? 1 - std::pow(static_cast<double>(c().decay), 10.0) : 1;
  const auto expect_root = [&](const Array& of, const Array& got, const std::string& what) {
    Array corrected = of;
    for (double& v : corrected.data) v /= correction;
    const Array want = oracle::inverse_root(corrected, c().epsilon, c().root);
    double difference = 0, norm = 0;
    for (std::int64_t i = 0; i < n * n; ++i) {
      difference += (got[i] - want[i]) * (got[i] - want[i]);
      norm += want[i] * want[i];
    }
    EXPECT_LE(std::sqrt(difference / norm), 2e-6) << what << ": " << c().about;
  };
  const Array first = get(ctx(), dsts[0]);
  Array got({n, n});
  for (std::int64_t i = 0; i < room; ++i)
    for (std::int64_t j = 0; j < room; ++j) {
      EXPECT_EQ(first[i * room + j], 0) << "left to another rank";
      if (i < n && j < n)
        got[i * n + j] = first[(room + i) * room + j];
      else
        EXPECT_EQ(first[(room + i) * room + j], 0) << "behind the matrix";
    }
  expect_root(a, got, "with gaps");
  expect_root(b, oracle::reshape(get(ctx(), dsts[1]), {n, n}), "alone");
}

INSTANTIATE_TEST_SUITE_P(Shampoo, InverseRootsTest, ::testing::ValuesIn(on_every_context(root_cases())), CaseName());

struct ShampooCase {
  std::string name, about;
};

class ShampooOpsTest : public CaseTest<ShampooCase> {};

/// A NaN stays in its matrix, and zeros give epsilon^(-1 / root).
TEST_P(ShampooOpsTest, RootsOfNansAndZeros) {
  const std::int64_t n = 4;
  const auto op = make(ops::InverseRootsDesc{{TensorDesc::plain({2, n, n})}, {{0, 0, n, 2}, {0, 1, n, 2}}, 1e-4f});
  if (!op) return;
  Array stack({2, n, n});
  stack[5] = std::numeric_limits<double>::quiet_NaN();
  const Tensor src = put(ctx(), stack, Layout::plain(stack.shape)), dst = put(ctx(), stack, Layout::plain(stack.shape));
  const auto bytes = static_cast<std::int64_t>(op->scratch_bytes(ops::Verb::forward));
  op->forward(
      {put_step_params(ctx(), {}), {src}, {dst}, ctx().allocate(TensorDesc::plain({bytes}, DType::u8), "scratch")});
  const Array got = get(ctx(), dst);
  for (std::int64_t i = 0; i < n * n; ++i) {
    EXPECT_TRUE(std::isnan(got[i]));
    EXPECT_NEAR(got[n * n + i], i % (n + 1) == 0 ? 100 : 0, 1e-4);
  }
}

/// Roots that begin() has computed beside the caller are those of forward() alone, and those of other matrices do not
/// reach forward().
TEST_P(ShampooOpsTest, RootsThatBeganEarlier) {
  const std::int64_t n = 40, delay = 3;
  const ops::InverseRootsDesc d{{TensorDesc::plain({2, n, n})}, {{0, 0, n, 4}, {0, 1, n - 7, 2}}, 1e-4f, 0.9f, delay};
  const auto op = make(d), alone = make(d);
  if (!op) return;
  const auto stack = [&](const std::string& name) {
    Array a = oracle::random_uniform({2, n, n}, name);
    for (std::int64_t m = 0; m < 2; ++m)
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j <= i; ++j)
          a[(m * n + i) * n + j] = a[(m * n + j) * n + i] = i == j ? 50 : a[(m * n + i) * n + j];
    return put(ctx(), a, Layout::plain(a.shape));
  };
  const auto roots = [&](ops::InverseRoots& of, const Tensor& src, std::uint64_t step) {
    const Tensor dst = put(ctx(), Array(src.desc().shape, 5), Layout::plain(src.desc().shape));
    const auto bytes = static_cast<std::int64_t>(of.scratch_bytes(ops::Verb::forward));
    of.forward({put_step_params(ctx(), {.step = step}),
                {src},
                {dst},
                ctx().allocate(TensorDesc::plain({bytes}, DType::u8), "scratch")});
    return get(ctx(), dst).data;
  };
  const Tensor first = stack("first"), second = stack("second");
  const auto of_first = roots(*alone, first, 5 + delay), of_second = roots(*alone, second, 5 + delay);
  EXPECT_NE(of_first, roots(*alone, first, 6 + delay)) << "the correction is another one";
  const auto begin = [&](const Tensor& src) { op->begin(put_step_params(ctx(), {.step = 5}), {src}); };
  begin(first);
  EXPECT_EQ(roots(*op, first, 5 + delay), of_first);
  EXPECT_EQ(roots(*op, second, 5 + delay), of_second) << "without begin()";
  begin(first);
  EXPECT_EQ(roots(*op, second, 5 + delay), of_second) << "other matrices";
  begin(first);
  EXPECT_EQ(roots(*op, first, 6 + delay), roots(*alone, first, 6 + delay)) << "another step";
  begin(second);
  begin(first);
  EXPECT_EQ(roots(*op, first, 5 + delay), of_first);
  begin(second);  // and the primitive ends
}

TEST_P(ShampooOpsTest, SumsDecayInMatricesWithGaps) {
  const Shape shape{5, 7};
  for (const std::int64_t stride : {7, 11})
    for (const float decay : {0.9f, 1.0f}) {
      const TensorDesc sum{shape, DType::f32, Layout::strided(shape, {stride, 1})};
      const auto op = make(ops::DecayedSumDesc{sum, decay});
      if (!op) return;
      const Array before = oracle::random_uniform(shape, "before"), term = oracle::random_uniform(shape, "term");
      for (const int skip : {0, 1}) {
        const Tensor held = put(ctx(), before, sum.layout);
        op->forward({put(ctx(), term, Layout::plain(shape)), held, put_loss_scale(ctx(), {.skip = skip})});
        Array want = before;
        for (std::int64_t i = 0; i < want.elements() && skip == 0; ++i)
          want[i] = static_cast<double>(decay) * want[i] + (decay < 1 ? 1 - static_cast<double>(decay) : 1.0) * term[i];
        check(held, want, fmt::format("stride {} decay {} skip {}", stride, decay, skip));
      }
    }
}

TEST_P(ShampooOpsTest, GraftsMatchTheirFormulas) {
  const Shape shape{3, 5};
  const auto plain = Layout::plain(shape);
  for (const Graft method : {Graft::none, Graft::sgd, Graft::adagrad, Graft::adam}) {
    const auto op = make(ops::GraftDirectionDesc{{method, 0.9f, 1e-3f, 0.5f}, TensorDesc::plain(shape)});
    if (!op) return;
    const bool has_state = method == Graft::adagrad || method == Graft::adam;
    Array v(shape);
    const Tensor held = put(ctx(), v, plain), x = put(ctx(), Array(shape, 9), plain),
                 u = put(ctx(), Array(shape, 9), plain);
    for (std::uint64_t step = 0; step < 3; ++step) {
      const Array g = oracle::random_uniform(shape, fmt::format("g{}", step));
      const double squares = 256.0 * 16, factor = 0.5 / 16;  // unscaled by 4, the norm is 16, and is clipped to 0.5
      const int skip = step == 1 ? 1 : 0;
      op->forward({put_step_params(ctx(), {.step = step}), put(ctx(), g, plain),
                   put_f64(ctx(), Array(Shape{1}, squares)), has_state ? held : Tensor(), x, u,
                   put_loss_scale(ctx(), {.unscale = 0.25f, .skip = skip})});
      Array want_x(shape), want_u(shape);
      for (std::int64_t i = 0; i < g.elements() && skip == 0; ++i) {
        want_x[i] = want_u[i] = g[i] * 0.25 * factor;
        if (method == Graft::adagrad) v[i] += want_x[i] * want_x[i];
        if (method == Graft::adam) v[i] = 0.9 * v[i] + 0.1 * want_x[i] * want_x[i];
        const double mean = method == Graft::adam ? v[i] / (1 - std::pow(0.9, static_cast<double>(step) + 1)) : v[i];
        if (has_state) want_u[i] = want_x[i] / (std::sqrt(mean) + 1e-3);
      }
      const auto what = fmt::format("{} step {}", ops::to_string(method), step);
      check(x, want_x, what + " gradient");
      check(u, want_u, what + " direction");
      check(held, v, what + " state");
    }
  }
}

TEST_P(ShampooOpsTest, StepsMatchTheirFormula) {
  const Shape shape{3, 5};
  const auto plain = Layout::plain(shape);
  for (const bool with_means : {false, true})
    for (const bool grafted : {false, true}) {
      const ops::ShampooStepDesc d{
          TensorDesc::plain(shape), with_means ? 0.8f : 0, with_means ? 0.5f : 0, 0.01f, 0.5f, 1};
      const auto op = make(d);
      if (!op) return;
      Array w = oracle::random_uniform(shape, "w"), m(shape), buffer(shape);
      const Tensor held = put(ctx(), w, plain), held_m = put(ctx(), m, plain), held_buffer = put(ctx(), buffer, plain);
      for (std::uint64_t step = 0; step < 4; ++step) {
        // Step 0 is before the start, step 2 has no direction, and step 3 is skipped.
        const Array graft = oracle::random_uniform(shape, fmt::format("u{}", step));
        const Array direction = step == 2 ? Array(shape) : oracle::random_uniform(shape, fmt::format("d{}", step));
        const double squares = oracle::sum_squares(direction), wanted = oracle::sum_squares(graft);
        const int skip = step == 3 ? 1 : 0;
        op->forward({put_step_params(ctx(), {.step = step, .learning_rate = 0.1f}), put(ctx(), direction, plain),
                     put(ctx(), graft, plain), grafted ? put_f64(ctx(), {Shape{2}, {squares, wanted}}) : Tensor(), held,
                     with_means ? held_m : Tensor(), with_means ? held_buffer : Tensor(),
                     put_loss_scale(ctx(), {.skip = skip})});
        for (std::int64_t i = 0; i < w.elements() && skip == 0; ++i) {
          double u = step == 0 || (grafted && step == 2) ? graft[i]
                                                         : direction[i] * (grafted ? std::sqrt(wanted / squares) : 1);
          if (with_means) {
            m[i] = 0.8 * m[i] + 0.2 * u;
            u = buffer[i] = 0.5 * buffer[i] + m[i] / (1 - std::pow(0.8, static_cast<double>(step) + 1));
          }
          w[i] -= 0.1 * 0.5 * (0.01 * w[i] + u);
        }
        const auto what = fmt::format("step {}, grafted {}, with means {}", step, grafted, with_means);
        check(held, w, what);
        check(held_m, m, what + " mean");
        check(held_buffer, buffer, what + " momentum");
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Shampoo, ShampooOpsTest,
                         ::testing::ValuesIn(on_every_context<ShampooCase>({{"ops", "of a step"}})), CaseName());

}  // namespace
}  // namespace keelson::testing
