#include "engine/ops/orthogonalize.hpp"

#include <cmath>

#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

struct OrthogonalizeCase {
  std::string name, about;
  Shape src;
  int steps = 5;
  double scale = 1;  ///< of the elements
  float a = 3.4445f, b = -4.7750f, c = 2.0315f, epsilon = 1e-7f;
};

/// Small singular values grow by a factor of some hundred, and their rounding errors with them.
constexpr Tolerance of_iterations{3e-5, 1e-4};

class OrthogonalizeTest : public CaseTest<OrthogonalizeCase> {
 protected:
  ops::OrthogonalizeDesc desc() const {
    return {TensorDesc::plain(c().src), c().a, c().b, c().c, c().epsilon, c().steps};
  }
  Array source() const {
    Array x = oracle::random_uniform(c().src, "x");
    for (auto& v : x.data) v = static_cast<float>(v * c().scale);
    return x;
  }
  /// The result for `x`, of the shape of the case.
  std::optional<Array> result_of(const Array& x) {
    const auto op = make(desc());
    if (!op) return std::nullopt;
    const auto plain = Layout::plain(c().src);
    const Tensor src = put(ctx(), x, plain), dst = destination(ctx(), c().src, plain);
    allow_calls(5 * c().steps + 5);
    run_forward(c().name, *op, {src, dst, scratch(ctx(), op->scratch_bytes(ops::Verb::forward))});
    return get(ctx(), dst);
  }
};

TEST_P(OrthogonalizeTest, MatchesOracle) {
  const Array x = source();
  const auto got = result_of(x);
  if (!got) return;
  EXPECT_TRUE(close(*got, oracle::orthogonalize(x, desc()), c().name, of_iterations));
}

TEST_P(OrthogonalizeTest, KeepsZerosAndShowsNan) {
  Array x(c().src);
  const auto zeros = result_of(x);
  if (!zeros) return;
  EXPECT_TRUE(close(*zeros, x, c().name + ", zeros", exact));
  x[x.elements() / 2] = nan;
  const auto shown = result_of(x);
  for (std::int64_t i = 0; i < x.elements(); ++i) EXPECT_TRUE(std::isnan((*shown)[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Orthogonalize, OrthogonalizeTest,
    ::testing::ValuesIn(on_every_context<OrthogonalizeCase>({
        {"wide", "more columns than rows", {7, 33}},
        {"tall", "the transpose is computed", {33, 7}},
        {"square", "", {16, 16}},
        {"one_row", "", {1, 19}},
        {"one_column", "", {19, 1}},
        {"one", "", {1, 1}},
        {"large", "several blocks of the norm; backends pack", {136, 150}},
        {"large_tall", "", {150, 136}},
        {"very_wide", "the iteration goes on with X X^T", {24, 500}},
        {"very_tall", "the same of the transpose", {500, 24}},
        {"very_wide_one_step", "", {5, 90}, 1},
        {"very_wide_even_steps", "", {5, 90}, 4},
        {"one_step", "", {5, 9}, 1},
        {"even_steps", "the first matrix lies in dst", {9, 5}, 4},
        {"no_steps", "the norm alone", {5, 9}, 0},
        {"tiny", "squares of the elements are no f32", {6, 10}, 5, 1e-30, 3.4445f, -4.7750f, 2.0315f, 1e-37f},
        {"huge", "squares of the elements are no f32", {6, 10}, 5, 1e30},
        {"below_epsilon", "the norm is not divided by", {6, 10}, 5, 1e-6, 3.4445f, -4.7750f, 2.0315f, 0.5f},
        {"other_coefficients", "a cubic iteration", {6, 10}, 8, 1, 1.5f, -0.5f, 0},
    })),
    CaseName());

/// Product of two Householder reflections: an orthogonal matrix.
Array reflections(std::int64_t n, const std::string& name) {
  Array q({n, n});
  for (std::int64_t i = 0; i < n; ++i) q[i * n + i] = 1;
  for (const char* which : {"v", "w"}) {
    const Array v = oracle::random_uniform({n}, name + which);
    const double squares = oracle::sum_squares(v);
    Array next({n, n});
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double along = 0;
        for (std::int64_t k = 0; k < n; ++k) along += q[i * n + k] * v[k];
        next[i * n + j] = q[i * n + j] - 2 * along * v[j] / squares;
      }
    q = next;
  }
  return q;
}

class OrthogonalizeSingularValues : public OrthogonalizeTest {};

/// src = U S V^T with known orthogonal U and V. U^T dst V then is diagonal, with the values that the polynomial of one
/// variable gives: for the default settings between 0.68 and 1.21.
TEST_P(OrthogonalizeSingularValues, AreThoseOfThePolynomial) {
  const std::int64_t rows = c().src[0], columns = c().src[1], edge = std::min(rows, columns);
  const Array u = reflections(rows, "u"), v = reflections(columns, "v");
  std::vector<double> values;
  double squares = 0;
  for (std::int64_t i = 0; i < edge; ++i) {
    values.push_back(std::pow(0.01, static_cast<double>(i) / static_cast<double>(edge)));
    squares += values.back() * values.back();
  }
  Array x(c().src);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < edge; ++k)
        sum += u[i * rows + k] * values[static_cast<std::size_t>(k)] * v[j * columns + k];
      x[i * columns + j] = static_cast<float>(sum);
    }
  const auto got = result_of(x);
  if (!got) return;
  for (std::int64_t k = 0; k < edge; ++k)
    for (std::int64_t l = 0; l < columns; ++l) {
      double found = 0;
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j)
          found += u[i * rows + k] * (*got)[i * columns + j] * v[j * columns + l];
      double want = 0;
      if (k == l) {
        want = values[static_cast<std::size_t>(k)] / std::sqrt(squares);
        for (int step = 0; step < c().steps; ++step)
          want = want * (c().a + want * want * (c().b + want * want * c().c));
        EXPECT_GT(want, 0.68);
        EXPECT_LT(want, 1.21);
      }
      EXPECT_NEAR(found, want, 1e-4) << k << " " << l;
    }
}

INSTANTIATE_TEST_SUITE_P(Orthogonalize, OrthogonalizeSingularValues,
                         ::testing::ValuesIn(on_every_context<OrthogonalizeCase>({{"wide", "", {12, 20}},
                                                                                  {"tall", "", {20, 12}},
                                                                                  {"square", "", {16, 16}},
                                                                                  {"very_wide", "", {8, 60}},
                                                                                  {"very_tall", "", {60, 8}}})),
                         CaseName());

TEST(Orthogonalize, DeclinesWhatItCannotDo) {
  const auto why = [](const ops::OrthogonalizeDesc& d) {
    std::string text;
    EXPECT_EQ(context("kokkos").try_make(d, &text), nullptr);
    return text;
  };
  const TensorDesc matrix = TensorDesc::plain({4, 6});
  EXPECT_NE(why({.src = matrix, .epsilon = 0}).find("epsilon is 0, expected a number above 0"), std::string::npos);
  EXPECT_NE(why({.src = matrix, .steps = -1}).find("-1 steps"), std::string::npos);
  EXPECT_NE(why({.src = matrix.transposed()}).find("not a plain matrix"), std::string::npos);
  EXPECT_NE(why({.src = TensorDesc::plain({2, 3, 4})}).find("not a plain matrix"), std::string::npos);
}

}  // namespace
}  // namespace keelson::testing
